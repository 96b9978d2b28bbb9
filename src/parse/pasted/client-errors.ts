import {joinHostPort} from '../../model/address.ts';
import {someOf} from '../../model/text.ts';
import {undecorate} from '../iptables/pasted-text.ts';
import {fromObjects, type ListedService} from './listed-objects.ts';

/** A program that did not reach a server, as it says. */
export interface ClientError {
  readonly host: string;
  readonly port: number;
  readonly why: string;
}

const forms: readonly RegExp[] = [
  /\bdial tcp (\S+):(\d+): (?:connect: |getsockopt: )?([a-z/ ]+?)(?=["\\]|$)/,
  /\blookup \S+ on (\S+):(\d+): dial udp \S+ ([a-z/ ]+?)["\\]*$/,
  /\bread udp [^\s>]+->(\S+):(\d+): ([a-z/ :]+?)["\\]*$/,
  /\bcurl: \(\d+\) Failed to connect to (\S+) port (\d+)(?: after \d+ ms)?: (.+)$/,
  /\bcurl: \(\d+\) Failed connect to (\S+):(\d+); (.+)$/,
  /\bnc: connect to (\S+) port (\d+) \(tcp\) (?:failed: )?(.+)$/,
  /\bConnecting to (?:\S+ \S+\|)?(\d[\d.]+)(?: \([^)]*\))?[:|]:?(\d+)\W* failed: (.+)$/,
];

export function clientErrors(lines: readonly string[]): readonly ClientError[] {
  return lines.flatMap(line => {
    if (!mayFail.test(line)) return [];
    const text = undecorate(line).trim();
    const [, host = '', port, why = ''] = forms.map(form => form.exec(text)).find(found => found !== null) ?? [];
    return port === undefined ? [] : [{host, port: Number(port), why: why.replace(/\.$/, '')}];
  });
}

const mayFail = /dial tcp |dial udp |read udp |[Ff]ailed to connect|Failed connect|nc: connect|Connecting to /;

/** What clients ask of a Service that it does not have, and what policies of the text let nothing pass while a client waits. */
export function refusedClients(lines: readonly string[], services: readonly ListedService[]): readonly string[] {
  const errors = clientErrors(lines);
  if (errors.length === 0) return [];
  const other = errors.flatMap(({host, port}) => {
    const own = services.filter(({clusterIPs}) => clusterIPs.includes(host));
    const [service] = own;
    return service === undefined || own.some(({ports}) => ports.some(each => each.port === port))
      ? []
      : `a client asks for ${joinHostPort(host, port)}, and ${service.name} has ${someOf(service.ports.map(each => `${each.protocol} ${each.port}`))} alone: no rule serves another port of its cluster IP`;
  });
  return [...new Set(other), ...(errors.some(({why}) => /time/i.test(why)) ? closedByPolicies(lines) : [])];
}

/** Policies that let nothing pass, where the text has none that lets something pass. */
function closedByPolicies(lines: readonly string[]): readonly string[] {
  if (!lines.some(line => line.includes('NetworkPolicy'))) return [];
  const policies = fromObjects(lines, ({kind, metadata, spec}) => {
    if (kind !== 'NetworkPolicy') return [];
    const {podSelector, policyTypes = ['Ingress'], ingress, egress} = (spec ?? {}) as PolicySpec;
    const isAll = Object.keys(podSelector ?? {}).length === 0;
    const ways = policyTypes.map(type => (type === 'Egress' ? 'out of' : 'into')).join(' and ');
    const {name = ''} = (metadata ?? {}) as {readonly name?: string};
    return {
      passes: [...(ingress ?? []), ...(egress ?? [])].length > 0,
      text: `NetworkPolicy ${name} lets nothing ${ways} ${isAll ? 'the pods of its namespace' : 'the pods that it selects'}${policyTypes.includes('Egress') ? ' (no requests to DNS either)' : ''}, unless another policy does: the network plugin drops the packets, whatever the rules of kube-proxy`,
    };
  });
  return policies.some(({passes}) => passes) ? [] : policies.map(({text}) => text);
}

interface PolicySpec {
  readonly podSelector?: object;
  readonly policyTypes?: readonly string[];
  readonly ingress?: readonly unknown[] | null;
  readonly egress?: readonly unknown[] | null;
}
