import {type Address, contains, familyOf, parseAddress, parseCidr} from '../../model/address.ts';
import type {Endpoint} from '../../model/endpoint.ts';
import {onceAsked} from '../../model/once.ts';
import type {EntryKind, ServicePort} from '../../model/service-port.ts';

// What the API promises of a Service port, as a function of Services, EndpointSlices and Nodes: no version, setting or rule is asked.

/** Who sends. `pod`, `node` and `endpoint` (a pod that is an endpoint of the Service itself) are on the node that is asked about. */
export type Sender = 'pod' | 'node' | 'endpoint' | 'outside';

/** The end of a packet that reaches no endpoint: an error that the client sees, silence, or it goes on as if there were no Service. */
type End = 'refused' | 'dropped' | 'passed';

/** Endpoints by `ip:port`, all of which get packets, and no others. */
type Choice = ReadonlySet<string>;

/** What is allowed for the packets of one sender to one entry. */
export interface Allowed {
  /** Packets that reach endpoints reach one of these sets. */
  readonly choices: readonly Choice[];
  /** The other ends that packets may have. */
  readonly ends: ReadonlySet<End>;
  /** The endpoint sees the client's address: by the API, or by custom of kube-proxy alone. */
  readonly keepsSource: boolean | 'customary';
  /** Custom of kube-proxy, and not the API, has it that nobody is reached. */
  readonly isCustomarilyNobody: boolean;
  /** Whether a reply reaches the client only if the endpoint sees an address of this node. */
  readonly needsMasquerade: (hostPort: string) => boolean;
  readonly because: string;
}

/** One Service port as the newest API describes it, and the node. */
export interface PromiseInput {
  readonly port: ServicePort;
  readonly endpoints: readonly Endpoint[];
  readonly node: {readonly name: string; readonly zone: string | null; readonly addresses: readonly string[]};
}

/** An entry at an address; a node port at one of the Node's. */
export interface PromisedEntry {
  readonly kind: EntryKind;
  readonly address: string;
  readonly port: number;
}

/** The entries that the API promises. Addresses of the node itself as external IPs, and of two kinds at once with source ranges, are left open. */
export function promisedEntries({port, node}: PromiseInput): readonly PromisedEntry[] {
  const isShared = (address: string): boolean =>
    node.addresses.includes(address) ||
    (port.externalIPs.includes(address) && port.loadBalancerVIPs.includes(address) && rangesOf(port).length > 0);
  const at = (kind: EntryKind, addresses: readonly string[], number: number): readonly PromisedEntry[] =>
    [...new Set(addresses)].map(address => ({kind, address, port: number}));
  return [
    ...at('clusterIP', [port.clusterIP], port.port),
    ...at('nodePort', port.nodePort === 0 ? [] : node.addresses.filter(address => familyOf(address) === port.family), port.nodePort),
    ...at('loadBalancerIP', port.loadBalancerVIPs, port.port).filter(({address}) => !isShared(address)),
    ...at('externalIP', port.externalIPs, port.port).filter(({address}) => !isShared(address)),
  ];
}

function rangesOf({object}: ServicePort): readonly string[] {
  return object.spec?.loadBalancerSourceRanges ?? [];
}

/** What the API allows for a sender with this address at an entry; null where it leaves everything open. */
export function allows(
  input: PromiseInput,
  sender: Sender,
  {kind, source}: {readonly kind: EntryKind; readonly source: Address},
): Allowed | null {
  const {port} = input;
  const isInside = sender !== 'outside';
  const byPolicy = (): Allowed =>
    port.externalPolicyLocal
      ? {...allowed(input, sender, source, local(input)), keepsSource: true, because: 'externalTrafficPolicy is Local'}
      : allowed(input, sender, source, near(input));
  switch (kind) {
    case 'clusterIP': {
      // Everybody else is served by the proxy of their own node.
      if (!isInside) return null;
      const made = allowed(input, sender, source, port.internalPolicyLocal ? local(input) : near(input));
      const because = port.internalPolicyLocal ? 'internalTrafficPolicy is Local' : made.because;
      return {...made, because, keepsSource: sender === 'pod' ? 'customary' : false};
    }
    case 'nodePort': {
      if (sender === 'outside' || !port.externalPolicyLocal) return byPolicy();
      // Clients inside may have to mind the policy, and may not.
      const here = local(input);
      const both = allowed(input, sender, source, [...near(input), ...here]);
      return here.length > 0 ? both : {...both, ends: nobody};
    }
    case 'externalIP':
    case 'loadBalancerIP': {
      if (sender === 'outside') return kind === 'loadBalancerIP' ? withRanges(byPolicy(), input, {sender, source}) : byPolicy();
      const everybody = near(input);
      // Without endpoints, packets from inside may go on to the load balancer.
      if (!isInside || everybody.length === 0) return null;
      const made = {...allowed(input, sender, source, everybody), because: 'clients inside the cluster have the policy Cluster'};
      return kind === 'loadBalancerIP' ? withRanges(made, input, {sender, source}) : made;
    }
  }
}

const nobody: ReadonlySet<End> = new Set(['refused', 'dropped']);

function allowed({endpoints, node}: PromiseInput, sender: Sender, source: Address, choices: readonly Choice[]): Allowed {
  const byName = onceAsked(() => new Map(endpoints.map(endpoint => [endpoint.hostPort, endpoint])));
  // Another address of the node, such as a virtual one, is an answer's end as well where the endpoint is on this node.
  const comesBack = sender === 'pod' || sender === 'endpoint' || (sender === 'node' && node.addresses.includes(source.text));
  return {
    choices,
    ends: choices.length === 0 ? nobody : new Set(),
    keepsSource: false,
    isCustomarilyNobody: false,
    needsMasquerade: hostPort => {
      const endpoint = byName().get(hostPort);
      if (comesBack || endpoint === undefined) return endpoint !== undefined && sender !== 'node' && endpoint.address === source.text;
      return endpoint.nodeName !== node.name && !node.addresses.includes(endpoint.address);
    },
    because: choices.length === 0 ? 'no endpoint is usable' : 'all usable endpoints serve it',
  };
}

/** Ranges are about clients outside; whether they hold inside, the API does not say. Ranges of the other family alone say nothing of this one. */
function withRanges(
  made: Allowed,
  {port, node}: PromiseInput,
  {sender, source}: {readonly sender: Sender; readonly source: Address},
): Allowed | null {
  const given = rangesOf(port).flatMap(text => parseCidr(text.trim()) ?? []);
  if (given.length === 0) return made;
  const own = given.filter(({family}) => family === port.family);
  if (own.length === 0) return null;
  // The node is itself, whatever of its addresses a packet has as its source.
  const from =
    sender === 'node'
      ? (node.addresses.flatMap(text => parseAddress(text) ?? []).find(({family}) => family === port.family) ?? source)
      : source;
  if (own.some(range => range.prefix === 0 || contains(range, from))) return made;
  const because = 'the client is not in loadBalancerSourceRanges';
  if (sender === 'outside') return {...made, choices: [], ends: nobody, because};
  return {...made, ends: new Set([...made.ends, ...nobody]), isCustomarilyNobody: true, because};
}

/** All usable endpoints, or those that hints choose for this zone or node: a wish that a proxy need not follow. */
function near({endpoints, node}: PromiseInput): readonly Choice[] {
  const ready = endpoints.filter(endpoint => endpoint.ready);
  const hinted = (names: (endpoint: Endpoint) => readonly string[] | null, own: string | null): readonly Choice[] => {
    if (own === null || !ready.every(endpoint => names(endpoint) !== null)) return [];
    return nonEmpty(ready.filter(endpoint => names(endpoint)?.includes(own)));
  };
  return [...usable(endpoints), ...hinted(({zoneHints}) => zoneHints, node.zone), ...hinted(({nodeHints}) => nodeHints, node.name)];
}

function local({endpoints, node}: PromiseInput): readonly Choice[] {
  return usable(endpoints.filter(({nodeName}) => nodeName === node.name));
}

/** The ready ones, or where there are none, those that still serve while they terminate (KEP-1669). */
function usable(endpoints: readonly Endpoint[]): readonly Choice[] {
  const ready = nonEmpty(endpoints.filter(endpoint => endpoint.ready));
  return ready.length > 0 ? ready : nonEmpty(endpoints.filter(({serving, terminating}) => serving && terminating));
}

function nonEmpty(endpoints: readonly Endpoint[]): readonly Choice[] {
  return endpoints.length === 0 ? [] : [new Set(endpoints.map(({hostPort}) => hostPort))];
}

/** Where the packets of one sender end, each part with its probability. */
export interface Seen {
  /** Endpoints by `ip:port`. */
  readonly destinations: ReadonlyMap<string, {readonly masquerade: boolean}>;
  /** Probabilities of the outcomes that reach no endpoint. */
  readonly passed: number;
  readonly rejected: number;
  readonly dropped: number;
  readonly undecided: number;
}

/**
 * How a promise is broken. `unanswered`: replies do not reach the client. `unwanted`: endpoints get packets that they should not get.
 * `unserved`: endpoints get none. `admitted`: only custom has it that nobody is reached.
 */
export interface Breach {
  readonly kind: End | 'unanswered' | 'unwanted' | 'unserved' | 'source-changed' | 'admitted';
  readonly endpoints: readonly string[];
}

/** Compares what was seen with the choice that it is nearest to. What is undecided breaks no promise. */
export function breaches({choices, ends, keepsSource, isCustomarilyNobody, needsMasquerade}: Allowed, seen: Seen): readonly Breach[] {
  if (seen.undecided > 0) return [];
  const reached = [...seen.destinations];
  const names = (list: typeof reached): readonly string[] => list.map(([name]) => name);
  const unanswered = names(reached.filter(([to, {masquerade}]) => !masquerade && needsMasquerade(to)));
  const served = reached.filter(([to]) => !unanswered.includes(to));
  const nearest = choices
    .map(choice => ({
      extra: names(served.filter(([to]) => !choice.has(to))),
      lacking: [...choice].filter(to => !seen.destinations.has(to)),
    }))
    .toSorted((a, b) => a.extra.length + a.lacking.length - b.extra.length - b.lacking.length)[0];
  const {extra, lacking} = nearest ?? {extra: names(served), lacking: []};
  const changed = names(
    served.filter(([to, {masquerade}]) => keepsSource !== false && masquerade && !extra.includes(to) && !needsMasquerade(to)),
  );
  const ended = [
    {kind: 'refused', share: seen.rejected},
    {kind: 'dropped', share: seen.dropped},
    {kind: 'passed', share: seen.passed},
  ] as const;
  const broken: readonly Breach[] = [
    ...ended.filter(({kind, share}) => share > leastShare && !ends.has(kind)).map(({kind}) => ({kind, endpoints: []})),
    {kind: 'unanswered', endpoints: ends.has('dropped') ? [] : unanswered},
    {kind: 'unwanted', endpoints: extra},
    {kind: 'unserved', endpoints: served.length === 0 ? [] : lacking},
    {kind: 'source-changed', endpoints: changed},
    {kind: 'admitted', endpoints: isCustomarilyNobody ? names(served) : []},
  ];
  return broken.filter(({kind, endpoints}) => endpoints.length > 0 || kind === 'refused' || kind === 'dropped' || kind === 'passed');
}

/** Shares are printed by iptables in units of 2^-31. */
const leastShare = 1e-4;
