import {canonicalAddress, joinHostPort} from '../../model/address.ts';
import {readJson} from '../attempt.ts';

/** A backend of a frontend, as the agent lists it. */
export interface AgentBackend {
  /** `10.0.0.1:80` or `[fd00::1]:80`. */
  readonly hostPort: string;
  readonly protocol: string;
  /** `active`, `terminating`, `terminating-not-serving`, `quarantined` or `maintenance`. */
  readonly state: string;
}

/** A row of the agent's own table: `cilium-dbg service list`. */
export interface AgentFrontend {
  /** As `frontendKey` gives it. */
  readonly key: string;
  readonly address: string;
  readonly port: number;
  readonly protocol: string;
  readonly isInternal: boolean;
  /** `ClusterIP`, `NodePort`, `ExternalIPs`, `HostPort`, `LoadBalancer` or `LocalRedirect`. */
  readonly type: string;
  readonly namespace: string;
  readonly service: string;
  readonly isExternalLocal: boolean;
  readonly isInternalLocal: boolean;
  /** A Service of another cluster of the mesh. */
  readonly isRemote: boolean;
  readonly backends: readonly AgentBackend[];
}

/** The key of a frontend in the agent's table and in the kernel's map, as the map prints it: `10.96.0.1:443/TCP/i`. */
export function frontendKey(
  address: string,
  {port, protocol, isInternal}: Pick<AgentFrontend, 'port' | 'protocol' | 'isInternal'>,
): string {
  return `${joinHostPort(address, port)}/${protocol}${isInternal ? '/i' : ''}`;
}

/** The backends that get new connections: the active ones, or where there are none those that still serve while they terminate. */
export function usedBackends(backends: readonly AgentBackend[]): readonly AgentBackend[] {
  const active = backends.filter(({state}) => state === 'active');
  return active.length > 0 ? active : backends.filter(({state}) => state === 'terminating');
}

/** What `cilium-dbg service list -o json` printed; null if the text is something else. */
export function parseServiceList(text: string): readonly AgentFrontend[] | null {
  const list = readJson(withoutSpecs(text)) ?? readJson(text);
  // Go prints an empty list as null.
  if (list === null) return [];
  if (!Array.isArray(list)) return null;
  const frontends = list.map(frontendOf);
  return frontends.every(frontend => frontend !== null) ? frontends : null;
}

/** What was asked of the agent is as long as what it realized, and is not compared. The whole text, unless each is followed by its status. */
function withoutSpecs(text: string): string {
  const [head = '', ...parts] = text.split(/"spec":\s*\{/);
  const ends = parts.map(part => /\}\s*,\s*(?="status":)/.exec(part));
  const rests = parts.map((part, index) => part.slice((ends[index]?.index ?? 0) + (ends[index]?.[0].length ?? 0)));
  return ends.includes(null) ? text : head + rests.join('');
}

function frontendOf(row: unknown): AgentFrontend | null {
  const realized = fields(fields(fields(row).status).realized);
  const flags = fields(realized.flags);
  const place = fields(realized['frontend-address']);
  const address = canonicalAddress(text(place.ip));
  const backends = backendsOf(realized['backend-addresses']);
  if (address === null || text(flags.type) === '' || backends === null) return null;
  const scoped = {port: number(place.port), protocol: text(place.protocol).toUpperCase(), isInternal: place.scope === 'internal'};
  return {
    key: frontendKey(address, scoped),
    address,
    port: scoped.port,
    protocol: scoped.protocol,
    isInternal: scoped.isInternal,
    type: text(flags.type),
    namespace: text(flags.namespace),
    service: text(flags.name),
    isExternalLocal: flags.extTrafficPolicy === 'Local',
    isInternalLocal: flags.intTrafficPolicy === 'Local',
    isRemote: text(flags.cluster) !== '',
    backends,
  };
}

function backendsOf(list: unknown): readonly AgentBackend[] | null {
  if (list === null || list === undefined) return [];
  if (!Array.isArray(list)) return null;
  const backends = list.map((item): AgentBackend | null => {
    const {ip, port, protocol, state} = fields(item);
    const address = canonicalAddress(text(ip));
    if (address === null) return null;
    return {hostPort: joinHostPort(address, number(port)), protocol: text(protocol).toUpperCase(), state: text(state) || 'active'};
  });
  return backends.every(backend => backend !== null) ? backends : null;
}

/** What an agent says of itself; null, or an empty list, for what was not read. */
export interface AgentStatus {
  readonly version: AgentVersion | null;
  /** Whether it replaces kube-proxy. */
  readonly replaces: boolean | null;
  readonly hasAffinity: boolean;
  readonly hasHostPorts: boolean;
  /** Without replacement an agent may have them although it says that this is off. */
  readonly hasExternalIPs: boolean;
  /** Connections of pods and of the node itself are translated when they are opened. */
  readonly hasSocketLB: boolean;
  /** Without replacement too, up to 1.18. */
  readonly servesNodePorts: boolean;
  /** The first and the last port of the range of node ports. */
  readonly nodePorts: readonly [number, number];
  /** What it says of itself, if it says that it fails. */
  readonly trouble: string | null;
  /** What it says of its connection to the API server, if that is not well. */
  readonly apiTrouble: string | null;
}

export interface AgentVersion {
  readonly text: string;
  readonly major: number;
  readonly minor: number;
  readonly patch: number;
}

/** What `cilium-dbg status -o json` and `cilium-dbg version -o json` printed. */
export function parseAgentStatus(status: string, version: string): AgentStatus {
  const said = fields(readJson(status));
  const {Daemon: daemon, Client: client} = fields(readJson(version));
  const replacement = fields(said['kube-proxy-replacement']);
  const features = fields(replacement.features);
  const {state, msg} = fields(said.kubernetes);
  const [cilium, nodePort] = [fields(said.cilium), fields(features.nodePort)];
  const isOn = (name: 'sessionAffinity' | 'hostPort' | 'externalIPs' | 'socketLB'): boolean =>
    features[name] === undefined || fields(features[name]).enabled === true;
  return {
    version: versionOf(text(fields(daemon).Version)) ?? versionOf(text(cilium.msg)) ?? versionOf(text(fields(client).Version)),
    replaces: replacement.mode === 'True' ? true : replacement.mode === 'False' ? false : null,
    hasAffinity: isOn('sessionAffinity'),
    hasHostPorts: isOn('hostPort'),
    hasExternalIPs: isOn('externalIPs') || replacement.mode === 'False',
    hasSocketLB: isOn('socketLB'),
    servesNodePorts: nodePort.enabled === true,
    nodePorts: [number(nodePort.portMin) || 30_000, number(nodePort.portMax) || 32_767],
    trouble: cilium.state === 'Failure' ? text(cilium.msg) || 'Failure' : null,
    apiTrouble: state === 'Failure' || state === 'Warning' ? text(msg) || text(state) : null,
  };
}

function versionOf(said: string): AgentVersion | null {
  const found = /^v?(\d+)\.(\d+)(?:\.(\d+))?\S*/.exec(said);
  if (found === null) return null;
  return {text: found[0].replace(/^v/, ''), major: Number(found[1]), minor: Number(found[2]), patch: Number(found[3] ?? 0)};
}

/** The addresses at which the agent serves node ports: the table that `cilium-dbg shell -- db/show node-addresses` printed; null if it is none. */
export function parseNodePortAddresses(table: string): readonly string[] | null {
  const [heading = '', ...rows] = table.split('\n');
  if (!/^Address\s+NodePort\b/.test(heading)) return null;
  const addresses = rows.flatMap(row => {
    const [address = '', isNodePort] = row.split(/\s+/, 2);
    return isNodePort === 'true' ? (canonicalAddress(address) ?? []) : [];
  });
  return [...new Set(addresses)];
}

/** The names that are read of objects whose fields may be anything. */
type Fields = Readonly<
  Partial<
    Record<
      | ('status' | 'realized' | 'flags' | 'frontend-address' | 'backend-addresses' | 'ip' | 'port' | 'protocol' | 'scope' | 'state')
      | ('type' | 'namespace' | 'name' | 'cluster' | 'extTrafficPolicy' | 'intTrafficPolicy')
      | ('kube-proxy-replacement' | 'features' | 'sessionAffinity' | 'hostPort' | 'externalIPs' | 'socketLB' | 'enabled' | 'mode')
      | ('nodePort' | 'portMin' | 'portMax')
      | ('kubernetes' | 'cilium' | 'msg' | 'Daemon' | 'Client' | 'Version'),
      unknown
    >
  >
>;

function fields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? value : {};
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function number(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}
