import {isUnspecified} from '../../expect/cilium/promised-frontends.ts';
import type {CiliumState} from '../../expect/cilium/cilium-node.ts';
import {type Family, joinHostPort, parseCidr} from '../../model/address.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {plural, someOf} from '../../model/text.ts';
import {type AgentFrontend, frontendKey, usedBackends} from '../../parse/cilium/agent-table.ts';
import type {MapEntry} from '../../parse/cilium/lb-map.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {ciliumSymptom} from './agent-differences.ts';

/** What the kernel's map of one family is compared with. */
export interface MapCase {
  readonly family: Family;
  readonly state: CiliumState;
  /** The agent's frontends of the family. */
  readonly frontends: readonly AgentFrontend[];
  /** The keys that each of them should have in the map (`keysInMap`), by its key in the agent's table. */
  readonly keys: ReadonlyMap<string, readonly string[]>;
  /** The Service port of a frontend, by its key. */
  readonly ports: () => ReadonlyMap<string, ServicePort>;
  /** All addresses of the node. */
  readonly own: ReadonlySet<string>;
}

/** What the kernel's map has otherwise than the agent's table. */
export function mapSymptoms(given: MapCase): readonly Symptom[] {
  const {frontends, state, family} = given;
  if (state.map.size === 0 && frontends.length >= severalFrontends && state.settings.replacesKubeProxy === true) {
    const detail = "the kernel's map has none of the entries that the agent has: no Service works";
    const gist = "no Service works, the kernel's map of Cilium is empty";
    return [ciliumSymptom('map-differs', family, {variant: 'no-service-works', detail, gist})];
  }
  const shared = sharedIds(given);
  const faults = frontends.flatMap(frontend => faultsOf(frontend, {...given, shared}).map((fault): FaultAt => ({...fault, frontend})));
  return [...(faults.length === 0 ? [] : faultSymptoms(faults, given)), ...leftEntries(given)];
}

/** By its id an entry finds the address that replies get: each has its own, but for those of all ports (0). */
function sharedIds({state, family}: MapCase): ReadonlySet<number> {
  const [known, shared] = [new Set<number>(), new Set<number>()];
  for (const {id, address} of state.map.values())
    if (address.includes(':') === (family === 'IPv6')) (known.has(id) ? shared : known).add(id);
  shared.delete(0);
  return shared;
}

/** Fewer may be missing one by one. */
const severalFrontends = 3;

/** What the map has otherwise at one key. */
interface Fault extends Pick<Partial<Symptom>, 'endpoint' | 'severity' | 'variant' | 'gist'> {
  readonly kind?: 'slot-without-backend';
  readonly key: string;
  /** With the keys where it is so. */
  readonly text: (at: string) => string;
}

interface FaultAt extends Fault {
  readonly frontend: AgentFrontend;
}

/** A fault at several entries of one Service port, or of one host port, is one symptom. */
function faultSymptoms(faults: readonly FaultAt[], {ports: portsOf, family}: MapCase): readonly Symptom[] {
  const ports = portsOf();
  const ownerOf = ({key, namespace, service}: AgentFrontend): string => ports.get(key)?.servicePortName ?? `${namespace}/${service}`;
  const groups = Map.groupBy(faults, ({frontend, text}) => `${ownerOf(frontend)} ${text('')}`);
  return [...groups.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const {frontend, kind = 'map-differs', key, text, ...rest} = first;
    const isOfSeveral = rest.variant === 'lacks-entry' && others.some(({gist}) => gist !== rest.gist);
    const more = isOfSeveral ? {...rest, gist: undefined} : rest;
    const detail = text(someOf([key, ...others.map(other => other.key)]));
    const port = ports.get(frontend.key) ?? null;
    if (port !== null) return [ciliumSymptom(kind, port, {detail, ...more})];
    const [name = ''] = frontend.service.split(':', 1);
    const owner = `${frontend.type === 'HostPort' ? 'host port of pod ' : ''}${frontend.namespace}/${name}`;
    const service = {namespace: frontend.namespace, name};
    return [ciliumSymptom(kind, family, {service, detail: `${owner}: ${detail}`, ...more})];
  });
}

/** A frontend on no address in particular is also at each address of the node for node ports, unless another frontend has that address. */
export function keysInMap(frontend: AgentFrontend, state: CiliumState, taken: {has(key: string): boolean}): readonly string[] {
  const own = frontend.key;
  const {address: on} = frontend;
  if (!isUnspecified(on)) return [own];
  const addresses = (state.nodePortAddresses ?? []).filter(address => address.includes(':') === on.includes(':'));
  const others = addresses.map(address => frontendKey(address, frontend));
  const isTaken = (address: string): boolean =>
    [false, true].some(isInternal => taken.has(frontendKey(address, {...frontend, isInternal})));
  return [own, ...others.filter((_, index) => !isTaken(addresses[index] ?? ''))];
}

function faultsOf(frontend: AgentFrontend, {keys, state, shared}: MapCase & {readonly shared: ReadonlySet<number>}): readonly Fault[] {
  const own = keys.get(frontend.key) ?? [];
  // Where Cilium does not replace kube-proxy, it depends on version and routing mode which load balancers are in the map.
  const mayLack = state.settings.replacesKubeProxy !== true && frontend.type !== 'ClusterIP';
  const faults = own.flatMap((key): readonly Fault[] => {
    const entry = state.map.get(key);
    if (entry !== undefined)
      return [...(shared.has(entry.id) ? [sharedId(key)] : replyFaults(entry, state.replies)), ...entryFaults(entry, frontend)];
    if (mayLack) return [];
    const what = frontend.type === 'NodePort' ? `node port ${frontend.port}` : joinHostPort(frontend.address, frontend.port);
    const gist = `connections to ${what} fail, the kernel's map of Cilium lacks the entry`;
    return [{key, text: at => `the kernel's map does not have ${at}, and the agent has`, variant: 'lacks-entry', gist}];
  });
  if (own.length < 2) return faults;
  const proxied = own.filter(key => isProxied(state.map.get(key)));
  const others = own.filter(key => state.map.has(key) && !proxied.includes(key));
  if (proxied.length === 0 || others.length === 0) return faults;
  const text = (): string =>
    `in the kernel's map a proxy of the node takes connections to ${someOf(proxied)}, and none those to ${someOf(others)}`;
  return [...faults, {key: frontend.key, text, gist: 'a proxy of the node takes a part of the connections, by the map of Cilium'}];
}

function sharedId(key: string): Fault {
  const text = (at: string): string => `the kernel's map has the id of ${at} twice: replies come from the address of one of the two`;
  return {key, text, gist: "replies come from the address of another Service, by the kernel's map of Cilium"};
}

/** Replies get the address that stands at the id of the entry. */
function replyFaults({key, id, address, port}: MapEntry, replies: CiliumState['replies']): readonly Fault[] {
  const other = replies?.get(id);
  if (replies === null || id === 0 || other === joinHostPort(address, port)) return [];
  const text = (at: string): string => `by the kernel's map, replies of ${at} come from ${other ?? 'the endpoint itself'}`;
  return [{key, text, gist: "replies come from another address, by the kernel's map of Cilium"}];
}

/** A proxy of the node takes the connections. */
export function isProxied(entry: MapEntry | undefined): boolean {
  return entry !== undefined && (entry.hasProxyPort || entry.flags.includes('l7-load-balancer'));
}

function entryFaults(entry: MapEntry, frontend: AgentFrontend): readonly Fault[] {
  const {key, flags, backends, count} = entry;
  const type = flags[0] ?? '';
  if (type !== frontend.type) {
    const gist = `the kernel's map of Cilium has a ${type} in place of a ${frontend.type}`;
    return [{key, gist, text: at => `the kernel's map has a ${type} at ${at}, and the agent a ${frontend.type}`}];
  }
  // A proxy on the node takes the connections: its entry needs no backends.
  if (isProxied(entry)) return [];
  const wanted = usedBackends(frontend.backends).map(({hostPort, protocol}) => `${hostPort}/${protocol}`);
  const faults = flagFaults(entry, frontend);
  // Nearly all entries are in the order of the agent's table.
  if (count === wanted.length && wanted.every((backend, index) => backend === backends[index])) return faults;
  const has = new Set(backends.filter(backend => backend !== null));
  const lacking = wanted.filter(backend => !has.has(backend));
  const extra = [...has].filter(backend => !wanted.includes(backend));
  const empty = count - backends.filter(backend => backend !== null).length;
  const doubled = new Set(backends.filter(backend => backend !== null).filter((backend, index, all) => all.indexOf(backend) !== index));
  const named = (list: Iterable<string>, faultOf: (name: string, backend: string) => Omit<Fault, 'key' | 'endpoint'>): readonly Fault[] =>
    [...list].map(backend => {
      const name = backend.slice(0, backend.lastIndexOf('/'));
      return {key, endpoint: name, ...faultOf(name, backend)};
    });
  const lost = (at: string): string =>
    `${empty} of ${count} slots of the kernel's map at ${at} ${empty === 1 ? 'leads to no backend: its' : 'lead to no backend: their'} connections are dropped`;
  return [
    ...faults,
    ...(empty === 0 ? [] : [{key, kind: 'slot-without-backend' as const, text: lost}]),
    // An empty slot is where a backend is missing.
    ...named(empty >= lacking.length ? [] : lacking, name => ({
      text: at => `the kernel's map does not send to ${name} at ${at}, and the agent does`,
      variant: 'lacks-backend',
    })),
    ...named(extra, name => ({
      text: at => `the kernel's map still sends to ${name} at ${at}, and the agent does not`,
      variant: 'has-backend',
    })),
    // Where a backend is missing too, another took its slot.
    ...named(lacking.length > 0 || wanted.length > new Set(wanted).size ? [] : doubled, (name, backend) => {
      const slots = backends.filter(one => one === backend).length;
      return {
        text: at => `${slots} of ${count} slots of the kernel's map at ${at} lead to ${name}: it gets more than its share`,
        gist: `${name} gets more than its share, by the kernel's map of Cilium`,
        severity: 'warning',
      };
    }),
  ];
}

/**
 * The flags by which the kernel chooses who may use an entry, and the endpoints of which scope. That an entry may be reached from outside
 * although it need not be harms nobody.
 */
function flagFaults({key, address, flags, backends}: MapEntry, frontend: AgentFrontend): readonly Fault[] {
  const {type, isExternalLocal, isInternalLocal} = frontend;
  const has = (flag: string): boolean => flags.includes(flag);
  const isInside = type === 'ClusterIP' || isUnspecified(address);
  const isScoped = type !== 'ClusterIP' && isExternalLocal !== isInternalLocal;
  const policyOf = (isLocal: boolean): string => (isLocal ? 'Local' : 'Cluster');
  const faults: Fault[] = [];
  if (!isInside && has('non-routable')) {
    const gist = "clients outside the cluster are dropped, by the kernel's map of Cilium";
    faults.push({key, text: at => `the kernel's map drops packets of clients outside the cluster at ${at} (non-routable)`, gist});
  }
  if (has('46x64') && backends.every(backend => backend === null || backend.startsWith('[') === address.includes(':')))
    faults.push({
      key,
      text: at => `the kernel's map translates between IPv4 and IPv6 at ${at} (46x64), and its backends are of the same family`,
      gist: "connections fail, the kernel's map of Cilium translates them to the other family",
    });
  if (has('two-scopes') !== isScoped)
    faults.push({
      key,
      text: at =>
        isScoped
          ? `the kernel's map does not tell clients in the cluster from those outside at ${at} (two-scopes), and the agent does: all get the endpoints of those outside`
          : `the kernel's map looks for other endpoints for clients in the cluster at ${at} (two-scopes), and the agent has none for them`,
      gist: `the kernel's map of Cilium ${isScoped ? 'does not tell clients in the cluster from those outside' : 'looks for other endpoints for clients in the cluster'}`,
    });
  const policies = [
    {name: 'externalTrafficPolicy', flag: 'Local', isLocal: isExternalLocal},
    {name: 'internalTrafficPolicy', flag: 'InternalLocal', isLocal: isInternalLocal},
  ];
  for (const {name, flag, isLocal} of policies)
    if (has(flag) !== isLocal)
      faults.push({
        key,
        text: at => `the kernel's map has ${name} ${policyOf(!isLocal)} at ${at}, and the agent ${policyOf(isLocal)}`,
        gist: `the kernel's map of Cilium has another ${name} than the agent`,
        severity: 'warning',
      });
  return faults;
}

/** Entries that no frontend of the agent explains. */
function leftEntries({state, family, own, keys}: MapCase): readonly Symptom[] {
  const expected = new Set([...keys.values()].flat());
  // Where it is not known at which addresses node ports are served, any may be one.
  const anywhere = family === 'IPv6' ? '[::]:' : '0.0.0.0:';
  const isExplained = (key: string): boolean =>
    expected.has(key) || (state.nodePortAddresses === null && expected.has(key.replace(/^.*:(?=\d+\/)/, anywhere)));
  const left = [...state.map.values()].filter(({key, address}) => address.includes(':') === (family === 'IPv6') && !isExplained(key));
  const onNode = left.filter(({port, address}) => port === 0 && own.has(address));
  const others = left.filter(({port}) => port !== 0);
  const served = others.filter(({count}) => count > 0);
  const names = others.map(({key}) => key);
  return [
    ...onNode.map(({key, address}) => {
      const detail = `${key} in the kernel's map drops what is sent to ${address}, an address of the node itself, at every port without a Service`;
      return ciliumSymptom('wildcard-on-node-address', family, {detail});
    }),
    ...(names.length === 0
      ? []
      : [
          ciliumSymptom('map-differs', family, {
            severity: served.length > 0 ? 'warning' : 'info',
            gist: `the kernel's map of Cilium still has ${someOf(names, {max: 1})}, which the agent does not have`,
            detail: `the kernel's map has ${plural(names.length, 'entry', 'entries')} that the agent does not have: ${someOf(names)}`,
          }),
        ]),
  ];
}

/** What source ranges and session affinity of a Service port are in the map, where they are not as the API says. */
export function settingSymptoms(port: ServicePort, keys: readonly string[], state: CiliumState): readonly Symptom[] {
  const entries = keys.flatMap(key => state.map.get(key) ?? []).filter(({hasProxyPort}) => !hasProxyPort);
  return [...affinitySymptoms(port, entries, state), ...rangeSymptoms(port, entries, state)];
}

function affinitySymptoms(port: ServicePort, entries: readonly MapEntry[], {settings}: CiliumState): readonly Symptom[] {
  if (!settings.hasAffinity) return [];
  const seconds = ({flags, affinitySeconds}: MapEntry): number | null => (flags.includes('sessionAffinity') ? affinitySeconds : null);
  const other = entries.filter(entry => seconds(entry) !== port.affinitySeconds);
  const [first] = other;
  if (first === undefined) return [];
  const text = (of: number | null): string => (of === null ? 'no session affinity' : `session affinity for ${of} s`);
  const detail = `the kernel's map has ${text(seconds(first))} at ${someOf(other.map(({key}) => key))}, the API ${text(port.affinitySeconds)}`;
  return [ciliumSymptom('session-affinity-mismatch', port, {detail})];
}

/**
 * Ranges of the other family alone leave open what they mean in this one. Agents that check them at load balancers alone, and at each entry,
 * are both right: datapaths check where the entry says so.
 */
function rangeSymptoms(port: ServicePort, entries: readonly MapEntry[], {settings, ranges}: CiliumState): readonly Symptom[] {
  const given = (port.object.spec?.loadBalancerSourceRanges ?? []).flatMap(text => parseCidr(text.trim()) ?? []);
  const own = given.filter(({family}) => family === port.family).map(({text}) => text);
  const isOpen = (given.length > 0 && own.length === 0) || !settings.checksRanges;
  if (isOpen || (own.length === 0 && !entries.some(({flags}) => flags.includes('check source-range')))) return [];
  // Where one entry of a type checks them, all do that clients outside can reach.
  const checked = new Set(entries.flatMap(({flags}) => (flags.includes('check source-range') ? flags[0] : [])).concat('LoadBalancer'));
  const isDeny = own.length > 0 && port.object.metadata.annotations?.['service.cilium.io/src-ranges-policy'] === 'deny';
  const textOf = ({id, flags}: MapEntry): string | null => {
    const isChecked = flags.includes('check source-range');
    if (isChecked !== own.length > 0)
      return `the kernel's map checks ${isChecked ? 'source ranges, and the Service has none' : 'no source ranges: every client gets in'}`;
    if (own.length > 0 && flags.includes('deny') !== isDeny)
      return `the kernel's map ${isDeny ? 'admits' : 'refuses'} the source ranges, the Service ${isDeny ? 'refuses' : 'admits'} them`;
    const rows = ranges?.get(id) ?? [];
    const [lacking, extra] = [own.filter(range => !rows.includes(range)), rows.filter(range => !own.includes(range))];
    if (ranges === null || own.length === 0 || (lacking.length === 0 && extra.length === 0)) return null;
    const texts = [
      lacking.length === 0 ? '' : `does not have ${someOf(lacking)}`,
      extra.length === 0 ? '' : `has ${someOf(extra)} besides`,
    ];
    return `of the source ranges the kernel's map ${texts.filter(text => text !== '').join(', and ')}`;
  };
  const groups = Map.groupBy(
    entries.filter(({address, flags}) => flags.includes('check source-range') || (checked.has(flags[0]) && !isUnspecified(address))),
    textOf,
  );
  return [...groups].flatMap(([text, at]) =>
    text === null
      ? []
      : [
          ciliumSymptom('source-ranges-mismatch', port, {
            detail: `${text} (at ${someOf(at.map(({key}) => key))})`,
            gist:
              own.length > 0
                ? "loadBalancerSourceRanges are not applied by the kernel's map of Cilium"
                : "clients are dropped by source ranges that the Service does not have, by the kernel's map of Cilium",
          }),
        ],
  );
}
