import type {ProxyVersion} from '../../expect/cluster/service-ports.ts';
import type {Entry} from '../../model/entry.ts';
import type {EntryTrace, PortTrace} from '../../model/service-trace.ts';
import {unservedFromOutside} from '../outcomes/unserved-addresses.ts';
import {matchesEntry, type Portal} from './portal.ts';

/** The path to kube-proxy for every entry of a Service port, as far as the rules show it. */
export function tracePortals({port, entries, rules}: Portal, node: string, proxy: ProxyVersion): PortTrace {
  const trace = (entry: Entry): EntryTrace => {
    const found =
      rules.find(rule => rule.chain.hook === 'PREROUTING' && matchesEntry(rule, entry, port)) ??
      rules.find(rule => matchesEntry(rule, entry, port));
    const base = {entry, from: found?.chain.hook === 'OUTPUT' ? 'the node itself' : 'a pod of this node', endpoints: []};
    if (found === undefined) return {...base, mark: 'missing', steps: [], end: {verdict: 'passed', rule: null}};
    const {table, chain, line, text} = found.rule;
    const reason = `kube-proxy, on port ${found.proxyPort ?? 'unknown'}, picks the endpoint`;
    return {
      ...base,
      mark: 'ok',
      steps: [{table, chain, line, text, to: `${found.rule.target?.name ?? ''} ${found.proxyPort ?? ''}`.trim()}],
      end: {verdict: 'undecided', rule: found.rule, reason},
    };
  };
  const unserved = unservedFromOutside(port, proxy);
  return {
    node,
    family: port.family,
    service: {namespace: port.namespace, name: port.service},
    port: {name: port.portName, protocol: port.protocol, port: port.port},
    entries: entries.map(trace),
    ...(unserved.length === 0 ? {} : {unserved}),
  };
}
