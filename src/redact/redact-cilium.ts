import {pathTree} from '../model/path-tree.ts';
import {isObject, readJson} from '../parse/attempt.ts';
import {isKnownText, knownVersion, wordSet} from './known-words.ts';
import {unreadable, redactJson} from './redact-config.ts';
import {type Replacements, treatAddress, type Treatment} from './replacements.ts';
import {joinHostPort} from '../model/address.ts';

/** Words of Cilium: types, scopes, states, protocols, flags of entries, and names of settings. */
const words: ReadonlySet<string> = new Set([
  '',
  'check source-range',
  ...wordSet(`
  ClusterIP NodePort ExternalIPs HostPort LoadBalancer LocalRedirect Cluster Local internal external active terminating
  terminating-not-serving quarantined maintenance TCP UDP SCTP ANY True False Ok Warning Failure Disabled InternalLocal two-scopes
  sessionAffinity non-routable deny 46x64 l7-load-balancer loopback delegate-if-local dsr allow external-only
  `),
]);

/** A word that no Cilium has is another one; and what has another type is none. */
const word: Treatment = value => {
  if (typeof value === 'string') return words.has(value) || isKnownText(value) ? value : 'other';
  return typeof value === 'number' || typeof value === 'boolean' ? value : null;
};
const version: Treatment = value => (typeof value === 'string' ? knownVersion(value) : null);
const message: Treatment = (value, replacements) => (typeof value === 'string' ? replacements.message(value) : null);

/** `web`; of a host port `pod:host-port:8080:UID`, and of a health check `web:healthserver`. */
const serviceName: Treatment = (value, replacements) => {
  const [name = '', kind, port, id] = String(value).split(':');
  const own = replacements.names.replace(name, 'service');
  if (kind === 'healthserver') return `${own}:healthserver`;
  return kind === 'host-port' && id !== undefined ? `${own}:host-port:${Number(port)}:${replacements.uid(id)}` : own;
};

const services = pathTree<Treatment>(
  ['kept', '[].status.realized.{id backend-addresses[].{port weight} flags.healthCheckNodePort frontend-address.port}'],
  ['address', '[].status.realized.{backend-addresses[].ip frontend-address.ip}'],
  ['node', '[].status.realized.backend-addresses[].nodeName'],
  [serviceName, '[].status.realized.flags.name'],
  ['namespace', '[].status.realized.flags.namespace'],
  ['word', '[].status.realized.flags.cluster'],
  [word, '[].status.realized.{backend-addresses[].{protocol state} frontend-address.{protocol scope}}'],
  [word, '[].status.realized.flags.{type extTrafficPolicy intTrafficPolicy trafficPolicy}'],
);

const status = pathTree<Treatment>(
  [word, 'cilium.state kubernetes.state kube-proxy-replacement.mode'],
  [version, 'cilium.msg'],
  [message, 'kubernetes.msg'],
  ['kept', 'kube-proxy-replacement.features.{sessionAffinity.enabled hostPort.enabled externalIPs.enabled socketLB.enabled}'],
  ['kept', 'kube-proxy-replacement.features.nodePort.{enabled portMin portMax}'],
);
const versions = pathTree<Treatment>([version, 'Client.Version Daemon.Version']);

/** `bpf lb list`: keys are places or networks, and values places, or numbers and flags. */
function redactMap(text: string, replacements: Replacements): string {
  const rows = readJson(text);
  if (!isObject(rows)) return unreadable;
  const entries = Object.entries(rows).map(([key, values]) => [
    withoutPlaces(key, replacements),
    Array.isArray(values) ? values.map(value => withoutPlaces(String(value), replacements)) : [],
  ]);
  return `${JSON.stringify(Object.fromEntries(entries))}\n`;
}

/** `10.0.0.1:80/TCP/i (0)`, `10.0.0.0/8 (7)`, `0.0.0.0:0 (7) (0) [ClusterIP, non-routable] `, `0 2[1] (7) [0x60 0x30]`. */
function withoutPlaces(text: string, replacements: Replacements): string {
  if (text.length > longest) return 'other';
  const [, six, four = '', port, rest = ''] = /^(?:\[([\da-f:.]+)\]|([\d.]+)):(\d+)((?:\/[A-Z]{2,4})?(?:\/i)?(?: .*)?)$/i.exec(text) ?? [];
  if (port !== undefined) return `${joinHostPort(treatAddress(six ?? four, replacements), Number(port))}${numbersAndFlags(rest)}`;
  const [, network, id] = /^([\da-f:.]+\/\d+) (\(\d+\))$/i.exec(text) ?? [];
  return network === undefined ? numbersAndFlags(text) : `${treatAddress(network, replacements)} ${id}`;
}

/** Of a row of a map, in characters. */
const longest = 400;

function numbersAndFlags(text: string): string {
  const [all, before = '', flags = '', after = ''] = /^([^[\]]*)\[([^\]]*)\](.*)$/.exec(text) ?? [];
  if (all === undefined) return plainText.test(text) ? text : 'other';
  const known = flags.split(', ').map(flag => (words.has(flag) || /^(?:\d+|0x[\da-f]+ 0x[\da-f]+)$/.test(flag) ? flag : 'other'));
  return `${numbersAndFlags(before)}[${known.join(', ')}]${numbersAndFlags(after)}`;
}

const plainText = /^(?:(?:\/[A-Z]{2,4})?(?:\/i)?[\s\d()]*|backend \d+ not found| ?\(L7LB Proxy Port: \d+\) ?)$/;

/** Each row begins with an address, and ends with a device. */
function redactNodeAddresses(text: string, replacements: Replacements): string {
  const [heading = '', ...rows] = text.split('\n');
  if (!/^Address\s+NodePort\b/.test(heading)) return unreadable;
  const kept = rows.flatMap(row => {
    const [address = '', nodePort = '', primary = '', device = ''] = row.trim().split(/\s+/);
    if (!/^(?:true|false)$/.test(nodePort)) return [];
    const isPrimary = /^(?:true|false)$/.test(primary) ? primary : 'false';
    return [`${treatAddress(address, replacements)}   ${nodePort}   ${isPrimary}   ${replacements.interfaces.replace(device)}`];
  });
  return `${['Address   NodePort   Primary   DeviceName', ...kept].join('\n')}\n`;
}

/** What is kept of the tables of Cilium, by the name of the file. */
export const ciliumFiles: Readonly<Record<string, (text: string, replacements: Replacements) => string>> = {
  'service-list.json': redactJson(services),
  'bpf-lb-list.json': redactMap,
  'bpf-lb-list-frontends.json': redactMap,
  'bpf-lb-list-revnat.json': redactMap,
  'bpf-lb-list-source-ranges.json': redactMap,
  'status.json': redactJson(status),
  'version.json': redactJson(versions),
  'db-show-node-addresses.txt': redactNodeAddresses,
};

/** The settings of ConfigMap cilium-config that frontends depend on. */
export const ciliumSettings: Readonly<Record<string, Treatment>> = {
  'enable-ipv4': word,
  'enable-ipv6': word,
  'enable-service-topology': word,
  'enable-svc-source-range-check': word,
  'kube-proxy-replacement': word,
  'service-no-backend-response': word,
  'k8s-service-proxy-name': 'word',
};

/** The annotations of Cilium that frontends depend on. */
export const ciliumAnnotations: Readonly<Record<string, Treatment>> = {
  'service.cilium.io/type': word,
  'service.cilium.io/node': 'word',
  'service.cilium.io/src-ranges-policy': word,
  'service.cilium.io/scope': word,
  'service.cilium.io/weight': word,
  'service.cilium.io/global': word,
  'io.cilium/global-service': word,
};
