import {diagnose as diagnoseSnapshot} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {Family} from '../../src/model/address.ts';
import type {ApiObjects, NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import type {NodeLag, StateChange} from '../../src/model/state-history.ts';
import {type Random, seededRandom} from '../bench/random.ts';
import {apiObjects, endpoint, nodeDump, service, slice} from '../cluster.ts';
import {expectedTable} from '../nft-expectation.ts';
import {withRules} from '../rendered-dump.ts';
import {type RenderedIpvs, renderedIpvs} from '../rendered-ipvs.ts';
import {nftText} from '../rendered-nft.ts';
import type {EndpointSliceObject, ServiceObject, ServiceSpec, SliceEndpoint} from '../../src/model/api-objects.ts';

/** A change of the API at a time, in milliseconds. */
type ApiEvent = Omit<StateChange, 'at'> & {readonly at: number; readonly kind: StateChange['kind']};

const nodeNames = ['node-a', 'node-b'] as const;

/**
 * API objects that change every 0.1 to 2 s, all of it in virtual time: pods get ready and unready, come and go; slices are added, deleted
 * and moved from one Service to another; Services change, are deleted and made again.
 */
class Churn {
  readonly start: ApiObjects;
  readonly events: readonly ApiEvent[];
  readonly #random: Random;
  readonly #services: Map<string, ServiceObject>;
  readonly #slices: Map<string, EndpointSliceObject>;
  #version = 1000;

  constructor(random: Random, {seconds, services}: {readonly seconds: number; readonly services: number}) {
    this.#random = random;
    const all = Array.from({length: services}, (_, index) => this.#service(index));
    this.#services = new Map(all.map(object => [keyOf(object), object]));
    this.#slices = new Map(all.flatMap((object, index) => this.#slicesFor(object, index)).map(object => [keyOf(object), object]));
    this.start = this.#objects();
    this.events = this.#run(seconds * 1000);
  }

  /** The state of a client that got all events of each stream up to a time. */
  stateAt(times: {readonly services: number; readonly slices: number}): ApiObjects {
    const services = new Map((this.start.services ?? []).map(object => [keyOf(object), object]));
    const slices = new Map((this.start.endpointSlices ?? []).map(object => [keyOf(object), object]));
    for (const event of this.events) {
      if (event.kind === 'Service' && event.at <= times.services)
        put(services, event.before as ServiceObject | null, event.now as ServiceObject | null);
      if (event.kind === 'EndpointSlice' && event.at <= times.slices)
        put(slices, event.before as EndpointSliceObject | null, event.now as EndpointSliceObject | null);
    }
    return apiObjects({services: [...services.values()], endpointSlices: [...slices.values()], nodes: nodeObjects});
  }

  /** As a watch has shown it by a time: each event some milliseconds after it happened. */
  changes({from, to}: {readonly from: number; readonly to: number}): readonly StateChange[] {
    const seen = this.events.filter(({at}) => at > from && at <= to);
    return seen.map(event => ({...event, at: event.at + 40}) as StateChange);
  }

  #run(length: number): readonly ApiEvent[] {
    const events: ApiEvent[] = [];
    for (let at = 0; at < length; at += 100 + this.#random.below(1900))
      events.push(...this.#change().map(event => ({...event, at}) as ApiEvent));
    return events;
  }

  #change(): readonly Omit<StateChange, 'at'>[] {
    const random = this.#random;
    const kind = random.below(20);
    const objects = [...this.#slices.values()];
    const victim = objects[random.below(objects.length)];
    if (kind === 0) return this.#deleteOrMake();
    if (kind <= 2) return this.#changeService();
    if (victim === undefined) return [];
    if (kind === 3) return this.#moveSlice(victim);
    if (kind === 4) return this.#setSlice(victim, null);
    if (kind === 5) return this.#addSlice();
    const endpoints = [...(victim.endpoints ?? [])];
    const which = random.below(Math.max(1, endpoints.length));
    const one = endpoints[which];
    const isV6 = victim.addressType === 'IPv6';
    if (kind <= 8 || one === undefined) endpoints.push(this.#endpoint(isV6 ? 'IPv6' : 'IPv4'));
    else if (kind <= 11 && endpoints.length > 0) endpoints.splice(which, 1);
    else endpoints[which] = {...one, conditions: {ready: one.conditions?.ready === false, serving: true}};
    return this.#setSlice(victim, {...victim, endpoints});
  }

  #deleteOrMake(): readonly Omit<StateChange, 'at'>[] {
    const index = this.#random.below((this.start.services ?? []).length);
    const original = (this.start.services ?? [])[index];
    if (original === undefined) return [];
    const known = this.#services.get(keyOf(original)) ?? null;
    const now = known === null ? {...original, metadata: {...original.metadata, resourceVersion: this.#next()}} : null;
    put(this.#services, known, now);
    return [{kind: 'Service', before: known, now} as Omit<StateChange, 'at'>];
  }

  #changeService(): readonly Omit<StateChange, 'at'>[] {
    const all = [...this.#services.values()];
    const before = all[this.#random.below(Math.max(1, all.length))];
    if (before === undefined) return [];
    const {spec} = before;
    const change = this.#random.pick<Partial<ServiceSpec>>([
      {
        sessionAffinity: spec?.sessionAffinity === 'ClientIP' ? 'None' : 'ClientIP',
        sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}},
      },
      {internalTrafficPolicy: spec?.internalTrafficPolicy === 'Local' ? 'Cluster' : 'Local'},
      {type: 'NodePort', ports: (spec?.ports ?? []).map(port => ({...port, nodePort: 30_000 + this.#random.below(2000)}))},
    ]);
    const now = {...before, metadata: {...before.metadata, resourceVersion: this.#next()}, spec: {...spec, ...change}};
    put(this.#services, before, now);
    return [{kind: 'Service', before, now} as Omit<StateChange, 'at'>];
  }

  #moveSlice(before: EndpointSliceObject): readonly Omit<StateChange, 'at'>[] {
    const all = this.start.services ?? [];
    const target = all[this.#random.below(all.length)];
    const labels = {'kubernetes.io/service-name': target?.metadata.name ?? ''};
    return this.#setSlice(before, {...before, metadata: {...before.metadata, labels}});
  }

  #addSlice(): readonly Omit<StateChange, 'at'>[] {
    const all = this.start.services ?? [];
    const owner = all[this.#random.below(all.length)];
    if (owner === undefined) return [];
    const [made] = this.#slicesFor(owner, this.#version);
    return made === undefined ? [] : this.#setSlice(null, made);
  }

  #setSlice(before: EndpointSliceObject | null, next: EndpointSliceObject | null): readonly Omit<StateChange, 'at'>[] {
    const now = next === null ? null : {...next, metadata: {...next.metadata, resourceVersion: this.#next()}};
    put(this.#slices, before, now);
    return [{kind: 'EndpointSlice', before, now} as Omit<StateChange, 'at'>];
  }

  #service(index: number): ServiceObject {
    const dual = index % 3 === 0;
    return service(
      `shop/svc-${index}`,
      {
        clusterIP: `10.96.1.${index + 1}`,
        clusterIPs: [`10.96.1.${index + 1}`, ...(dual ? [`fd00:96::${index + 1}`] : [])],
        ipFamilies: ['IPv4', ...(dual ? ['IPv6'] : [])],
        ports: [{name: 'http', port: 80, protocol: 'TCP'}],
      },
      {metadata: {resourceVersion: this.#next()}},
    );
  }

  #slicesFor(owner: ServiceObject, index: number): readonly EndpointSliceObject[] {
    const families: readonly Family[] = (owner.spec?.ipFamilies ?? ['IPv4']).includes('IPv6') ? ['IPv4', 'IPv6'] : ['IPv4'];
    return families.flatMap(family =>
      [0, 1].map(part => {
        const endpoints = Array.from({length: 1 + this.#random.below(3)}, () => this.#endpoint(family));
        const made = slice(keyOf(owner), endpoints, {
          ...{name: `s-${index}-${family}-${part}`, addressType: family, ports: [{name: 'http', port: 8080, protocol: 'TCP'}]},
        });
        return {...made, metadata: {...made.metadata, resourceVersion: this.#next()}};
      }),
    );
  }

  #endpoint(family: Family): SliceEndpoint {
    const number = this.#random.below(40) + 1;
    const address = family === 'IPv4' ? `10.244.1.${number}` : `fd00:244::${number.toString(16)}`;
    return endpoint(address, nodeNames[number % 2], {ready: this.#random.chance(0.8)});
  }

  #objects(): ApiObjects {
    return apiObjects({services: [...this.#services.values()], endpointSlices: [...this.#slices.values()], nodes: nodeObjects});
  }

  #next(): string {
    return String(this.#version++);
  }
}

const nodeObjects = nodeNames.map((name, index) => ({
  metadata: {name},
  spec: {podCIDRs: ['10.244.1.0/24']},
  status: {addresses: [{type: 'InternalIP', address: `172.18.0.${index + 2}`}]},
}));

function put<T extends ServiceObject | EndpointSliceObject>(map: Map<string, T>, before: T | null, now: T | null): void {
  if (before !== null) map.delete(keyOf(before));
  if (now !== null) map.set(keyOf(now), now);
}

function keyOf({metadata}: ServiceObject | EndpointSliceObject): string {
  return `${metadata.namespace}/${metadata.name}`;
}

export interface ChurnCheck {
  /** What was found of rules that a late kube-proxy wrote: nothing is wrong with them. */
  readonly findings: readonly Finding[];
  readonly lag: NodeLag | undefined;
  /** How late its slowest stream was, in seconds. */
  readonly late: number;
  /** One rule of it is removed, and what is found then. */
  readonly broken: {readonly removed: string; readonly findings: readonly Finding[]} | null;
}

/** How the kube-proxy of the node writes its rules, and how these come to be a dump. */
export interface ChurnedMode {
  readonly mode: 'iptables' | 'nftables' | 'ipvs';
  /** What kube-proxy writes by these API objects in one family. */
  readonly write: (api: ApiObjects, family: Family, random: Random) => string;
  /** A rule or element without which some packets are misrouted in every state, of those that were written; null if there is none. */
  readonly entryOf: (written: string, random: Random) => string | null;
  /** The files of the node that hold what was written. */
  readonly files: (written: Readonly<Record<Family, string>>) => Readonly<Record<string, string>>;
}

export const iptablesMode: ChurnedMode = {
  mode: 'iptables',
  write: (api, family, random) => {
    const [dumped] = withRules({origin: '', api, problems: [], nodes: [nodeIn('iptables')]}, random).nodes;
    return dumped?.read(family === 'IPv4' ? 'iptables-save' : 'ip6tables-save')?.toString() ?? '';
  },
  entryOf: (written, random) =>
    oneOf(
      written.match(/^-A KUBE-SEP-\S+ .*-j DNAT .*\n|^-A KUBE-SERVICES .*-j KUBE-SV[CL]-\S+\n|^-A KUBE-NODEPORTS .*-j KUBE-EXT-\S+\n/gm),
      random,
    ),
  files: ({IPv4, IPv6}) => ({'iptables-save': IPv4, 'ip6tables-save': IPv6}),
};

export const nftablesMode: ChurnedMode = {
  mode: 'nftables',
  write: (api, family) => nftText(expectedTable({api, node: nodeIn('nftables'), family})),
  entryOf: (written, random) => {
    const elements = /map service-(?:ips|nodeports) \{[^}]*elements = \{ (.*) \}\n/.exec(written)?.[1]?.split(', ') ?? [];
    const rules = written.match(/^\t\tmeta l4proto tcp dnat ip6? to .*\n/gm) ?? [];
    // An only element takes its line with it.
    const removable = elements.map((text, index) =>
      index + 1 < elements.length ? `${text}, ` : index > 0 ? `, ${text}` : `\t\telements = { ${text} }\n`,
    );
    return oneOf([...removable, ...rules], random);
  },
  files: ({IPv4, IPv6}) => ({'nft.txt': `${IPv4}${IPv6}`}),
};

export const ipvsMode: ChurnedMode = {
  mode: 'ipvs',
  write: (api, family, random) => {
    const {bound, ...texts} = renderedIpvs(api, family, {node: nodeIn('ipvs'), random});
    return JSON.stringify({...texts, bound});
  },
  // A Service has its address in every state; without a real server the node would have the state in which its endpoint is not ready. The
  // address of a Service without endpoints serves nobody.
  entryOf: (written, random) => {
    const {bound, servers} = JSON.parse(written) as RenderedIpvs;
    const serving = bound.filter(address => servers.includes(`\n-a -t ${address}:`));
    const address = oneOf(serving, random);
    if (address === null || bound.length === 1) return address === null ? null : `"${address}"`;
    return bound.at(-1) === address ? `,"${address}"` : `"${address}",`;
  },
  files: written => {
    const [four, six] = [JSON.parse(written.IPv4) as RenderedIpvs, JSON.parse(written.IPv6) as RenderedIpvs];
    const addresses = [...four.bound, ...six.bound].map(local => ({
      family: local.includes(':') ? 'inet6' : 'inet',
      local,
      scope: 'global',
    }));
    return {
      ...{'ipvsadm-save': four.servers + six.servers, 'ipset-save': four.sets + six.sets},
      ...{'iptables-save': four.rules, 'ip6tables-save': six.rules},
      'kube-ipvs0.json': JSON.stringify([{ifname: 'kube-ipvs0', flags: ['BROADCAST', 'NOARP'], addr_info: addresses}]),
    };
  },
};

/** A check of a node whose kube-proxy is late by up to so many milliseconds, in each stream and each family by another time. */
export function checkUnderChurn(seed: number, maxDelay: number, churned = iptablesMode): ChurnCheck {
  const random = seededRandom(seed);
  const churn = new Churn(random, {seconds: 60, services: 6});
  const readAt = 30_000 + random.below(25_000);
  const delays = {services: random.below(maxDelay), slices: random.below(maxDelay), other: random.below(maxDelay)};
  const four = churn.stateAt({services: readAt - delays.services, slices: readAt - delays.slices});
  const six = churn.stateAt({services: readAt - delays.other, slices: readAt - delays.services});
  const written = {IPv4: churned.write(four, 'IPv4', random), IPv6: churned.write(six, 'IPv6', random)};
  const check = (texts: typeof written) => diagnose(snapshotOf(churn, {mode: churned.mode, texts: churned.files(texts), readAt}));
  const {lag, findings} = check(written);
  const removed = churned.entryOf(written.IPv4, random);
  return {
    ...{findings, lag, late: Math.max(...Object.values(delays)) / 1000},
    broken: removed === null ? null : {removed, findings: check({...written, IPv4: written.IPv4.replace(removed, '')}).findings},
  };
}

function filesIn(mode: ChurnedMode['mode']): Readonly<Record<string, string>> {
  return {
    ...{'kube-proxy-version': 'Kubernetes v1.36.2\n', 'proxy-mode': mode},
    'kube-proxy-config.yaml': `mode: ${mode}\nclusterCIDR: 10.244.0.0/16\n`,
  };
}

function nodeIn(mode: ChurnedMode['mode']): NodeDump {
  return nodeDump('node-a', filesIn(mode));
}

interface ReadNode {
  readonly mode: ChurnedMode['mode'];
  readonly texts: Readonly<Record<string, string>>;
  readonly readAt: number;
}

/** What a capture of the node would hold. */
function snapshotOf(churn: Churn, {mode, texts, readAt}: ReadNode): Snapshot {
  // The API as it is when the dump is evaluated, half a second after it was read.
  const now = readAt + 800;
  const changes = churn.changes({from: 10_000, to: now});
  return {
    ...{origin: 'churn', api: churn.stateAt({services: now, slices: now}), problems: []},
    nodes: [nodeDump('node-a', {...filesIn(mode), ...texts})],
    history: {since: 10_000, changes, nodes: {'node-a': {from: readAt, to: readAt + 300}}},
  };
}

/** A snapshot under churn, and the findings of it. */
export function snapshotUnderChurn(seed: number): Snapshot {
  const random = seededRandom(seed);
  const churn = new Churn(random, {seconds: 60, services: 6});
  const api = churn.stateAt({services: 37_000, slices: 35_000});
  const written = {IPv4: iptablesMode.write(api, 'IPv4', random), IPv6: iptablesMode.write(api, 'IPv6', random)};
  return snapshotOf(churn, {mode: 'iptables', texts: iptablesMode.files(written), readAt: 40_000});
}

function diagnose(snapshot: Snapshot) {
  const report = diagnoseSnapshot(snapshot, {toolVersion: '0.0.0', nodesOnly: true, nodes: name => name === 'node-a'});
  return {
    lag: report.nodes[0]?.lag,
    findings: report.findings.filter(({severity, code}) => severity !== 'info' && !code.startsWith('ST7')),
  };
}

function oneOf(texts: readonly string[] | null, random: Random): string | null {
  return texts?.[random.below(Math.max(1, texts.length))] ?? null;
}
