import type {Finding} from '../../src/model/finding.ts';
import {countServices, type NodeReport, type Report} from '../../src/model/report.ts';
import type {Rule} from '../../src/model/ruleset.ts';
import type {RenderOptions} from '../../src/render/renderer.ts';

/** A report with the counts that follow from what is given. */
export function reportOf(given: {
  readonly nodes: readonly (string | NodeReport)[];
  readonly services: readonly string[];
  readonly findings?: readonly Finding[];
  readonly traces?: Report['traces'];
  readonly wait?: Report['wait'];
  readonly withoutRules?: Report['summary']['servicesWithoutRules'];
}): Report {
  const {services, findings = [], traces = [], wait} = given;
  const nodes = given.nodes.map(node => (typeof node === 'string' ? checkedNode(node) : node));
  const count = (severity: string): number => findings.filter(finding => finding.severity === severity).length;
  const unread = nodes.filter(({status}) => status === 'unread').length;
  return {
    tool: {name: 'svc-trace', version: '0.0.0'},
    summary: {
      verdict: count('error') > 0 ? 'findings' : unread > 0 ? 'incomplete' : count('warning') > 0 ? 'findings' : 'ok',
      ...{errors: count('error'), warnings: count('warning'), infos: count('info')},
      ...{nodesChecked: nodes.filter(({status}) => status === 'checked').length, nodesUnread: unread, servicePorts: services.length},
      ...countServices({served: services.map(serviceName), servicesWithoutRules: given.withoutRules ?? {}, unread: 0}, findings, nodes),
    },
    ...{nodes, findings, traces},
    services: services.map(serviceName),
    ...(wait === undefined ? {} : {wait}),
  };
}

export function checkedNode(name: string): NodeReport {
  const settings = {mode: {value: 'iptables', source: 'proxy-mode'}};
  return {
    ...{name, settings, status: 'checked', proxyMode: 'iptables'},
    kubeProxyVersion: 'v1.36.2',
    families: ['IPv4'],
    rules: 1,
    chains: 1,
  };
}

export function unreadNode(name: string, reason: string): NodeReport {
  return {name, reason, status: 'unread', families: [], rules: 0, chains: 0, settings: {}};
}

/** A finding of `namespace/name` on a node; of the node itself when no Service is named. */
export function findingOf(node: string, service: string | null, rest: Partial<Finding> = {}): Finding {
  return {
    ...{code: 'ST202', name: 'missing-endpoint', severity: 'error', node},
    ...(service === null ? {} : {service: serviceName(service)}),
    ...{message: `${service ?? node} is missing an endpoint`, remedy: 'Restart kube-proxy.'},
    ...rest,
  };
}

export function ruleOf(text: string, line = 0): Rule {
  return {table: 'nat', chain: 'KUBE-SERVICES', line, text, options: [], matches: [], target: null};
}

export function numbered(name: string, count: number): readonly string[] {
  return Array.from({length: count}, (_, index) => `${name}-${String(index + 1).padStart(3, '0')}`);
}

export const plain: RenderOptions = {color: false, width: 100, quiet: false, verbose: false, failOn: 'error'};

/** Names and rules that would attack a terminal. */
export const hostile = {
  escape: 'web\u001b[2J\u001b]0;owned\u0007',
  c1: 'web\u009b31m',
  bidi: 'web\u202egnp.exe',
  newline: 'web\nOK: all is well',
};

function serviceName(text: string): {namespace: string; name: string} {
  const [namespace = '', ...rest] = text.split('/');
  return {namespace, name: rest.join('/')};
}
