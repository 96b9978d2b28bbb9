import {isUnspecified} from '../../expect/cilium/promised-frontends.ts';
import type {CiliumState} from '../../expect/cilium/cilium-node.ts';
import {type Family, parseCidr} from '../../model/address.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {plural, someOf} from '../../model/text.ts';
import {type AgentFrontend, frontendKey, usedBackends} from '../../parse/cilium/agent-table.ts';
import type {MapEntry} from '../../parse/cilium/lb-map.ts';
import type {Symptom, SymptomKind} from '../symptoms/symptom.ts';
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
  readonly ports: ReadonlyMap<string, ServicePort>;
  /** All addresses of the node. */
  readonly own: ReadonlySet<string>;
}

/** What the kernel's map has otherwise than the agent's table. */
export function mapSymptoms(given: MapCase): readonly Symptom[] {
  return [...given.frontends.flatMap(frontend => frontendSymptoms(frontend, given)), ...leftEntries(given)];
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

function frontendSymptoms(frontend: AgentFrontend, given: MapCase): readonly Symptom[] {
  const entries = (given.keys.get(frontend.key) ?? []).map(key => ({key, entry: given.state.map.get(key)}));
  // Where Cilium does not replace kube-proxy, it depends on version and routing mode which load balancers are in the map.
  const mayLack = given.state.settings.replacesKubeProxy !== true && frontend.type !== 'ClusterIP';
  const missing = mayLack ? [] : entries.flatMap(({key, entry}) => (entry === undefined ? [key] : []));
  const symptom = symptomsOf(frontend, given);
  return [
    ...(missing.length === 0
      ? []
      : [symptom('map-differs', `the kernel's map does not have ${someOf(missing)}, and the agent has`, {variant: 'lacks-entry'})]),
    ...entries.flatMap(({entry}) => (entry === undefined ? [] : entrySymptoms(entry, frontend, symptom))),
  ];
}

type MakeSymptom = (kind: SymptomKind, detail: string, more?: Pick<Partial<Symptom>, 'endpoint' | 'severity' | 'variant'>) => Symptom;

function symptomsOf(frontend: AgentFrontend, {ports, family}: MapCase): MakeSymptom {
  const port = ports.get(frontend.key) ?? null;
  const service = {namespace: frontend.namespace, name: frontend.service};
  return (kind, detail, more = {}) => {
    if (port !== null) return ciliumSymptom(kind, port, {detail, ...more});
    const text = `${frontend.namespace}/${frontend.service}: ${detail}`;
    return {kind, family, port, service, detail: text, expected: [], actual: [], by: 'cilium' as const, ...more};
  };
}

function entrySymptoms(entry: MapEntry, frontend: AgentFrontend, symptom: MakeSymptom): readonly Symptom[] {
  const {key, flags, backends, count} = entry;
  const type = flags[0] ?? '';
  if (type !== frontend.type)
    return [symptom('map-differs', `in the kernel's map ${key} is a ${type}, and for the agent a ${frontend.type}`)];
  // A proxy on the node takes the connections: its entry needs no backends.
  if (entry.hasProxyPort || flags.includes('l7-load-balancer')) return [];
  const wanted = usedBackends(frontend.backends).map(({hostPort, protocol}) => `${hostPort}/${protocol}`);
  // Nearly all entries are in the order of the agent's table.
  if (count === wanted.length && wanted.every((backend, index) => backend === backends[index]))
    return flagSymptoms(entry, frontend, symptom);
  const has = new Set(backends.filter(backend => backend !== null));
  const lacking = wanted.filter(backend => !has.has(backend));
  const extra = [...has].filter(backend => !wanted.includes(backend));
  const empty = count - backends.filter(backend => backend !== null).length;
  const name = (backend: string): string => backend.slice(0, backend.lastIndexOf('/'));
  const doubled = new Set(backends.filter(backend => backend !== null).filter((backend, index, all) => all.indexOf(backend) !== index));
  return [
    ...flagSymptoms(entry, frontend, symptom),
    ...(empty === 0
      ? []
      : [
          symptom(
            'slot-without-backend',
            `${empty} of ${count} slots of ${key} in the kernel's map lead to no backend: their connections are dropped`,
          ),
        ]),
    // An empty slot is where a backend is missing.
    ...(empty >= lacking.length ? [] : lacking).map(backend =>
      symptom('map-differs', `the kernel's map does not send to ${name(backend)} at ${key}, and the agent does`, {
        endpoint: name(backend),
        variant: 'lacks-backend',
      }),
    ),
    ...extra.map(backend =>
      symptom('map-differs', `the kernel's map still sends to ${name(backend)} at ${key}, and the agent does not`, {
        endpoint: name(backend),
        variant: 'has-backend',
      }),
    ),
    // Where a backend is missing too, another took its slot.
    ...(lacking.length > 0 || wanted.length > new Set(wanted).size ? [] : [...doubled]).map(backend => {
      const slots = backends.filter(one => one === backend).length;
      return symptom(
        'map-differs',
        `in the kernel's map ${slots} of ${count} slots of ${key} lead to ${name(backend)}: it gets more than its share`,
        {
          endpoint: name(backend),
          severity: 'warning',
        },
      );
    }),
  ];
}

/**
 * The flags by which the kernel chooses who may use an entry, and the endpoints of which scope. That an entry may be reached from outside
 * although it need not be harms nobody.
 */
function flagSymptoms({key, address, flags}: MapEntry, frontend: AgentFrontend, symptom: MakeSymptom): readonly Symptom[] {
  const {type, isExternalLocal, isInternalLocal} = frontend;
  const has = (flag: string): boolean => flags.includes(flag);
  const isInside = type === 'ClusterIP' || isUnspecified(address);
  const isScoped = type !== 'ClusterIP' && isExternalLocal !== isInternalLocal;
  const policies = [
    {name: 'externalTrafficPolicy', flag: 'Local', isLocal: isExternalLocal},
    {name: 'internalTrafficPolicy', flag: 'InternalLocal', isLocal: isInternalLocal},
  ].filter(({flag, isLocal}) => has(flag) !== isLocal);
  const policyOf = (isLocal: boolean): string => (isLocal ? 'Local' : 'Cluster');
  return [
    ...(!isInside && has('non-routable')
      ? [
          symptom(
            'map-differs',
            `in the kernel's map ${key} is not for clients outside the cluster (non-routable): their packets are dropped`,
          ),
        ]
      : []),
    ...(has('two-scopes') === isScoped
      ? []
      : [
          symptom(
            'map-differs',
            isScoped
              ? `in the kernel's map ${key} does not tell clients in the cluster from those outside (two-scopes), and the agent does: all get the endpoints of those outside`
              : `in the kernel's map ${key} looks for other endpoints for clients in the cluster (two-scopes), and the agent has none for them`,
          ),
        ]),
    ...policies.map(({name, isLocal}) =>
      symptom(
        'map-differs',
        `in the kernel's map ${key} has ${name} ${policyOf(!isLocal)}, and for the agent it has ${policyOf(isLocal)}`,
        {
          severity: 'warning',
        },
      ),
    ),
  ];
}

/** Entries that no frontend of the agent explains. */
function leftEntries({state, family, own, keys}: MapCase): readonly Symptom[] {
  const expected = new Set([...keys.values()].flat());
  const left = [...state.map.values()].filter(({key, address}) => !expected.has(key) && address.includes(':') === (family === 'IPv6'));
  const base = {family, port: null, expected: [], actual: [], by: 'cilium' as const};
  const onNode = left.filter(({port, address}) => port === 0 && own.has(address));
  const others = left.filter(({port}) => port !== 0);
  const served = others.filter(({count}) => count > 0);
  return [
    ...onNode.map(({key, address}) => ({
      ...base,
      kind: 'wildcard-on-node-address' as const,
      detail: `${key} in the kernel's map drops what is sent to ${address}, an address of the node itself, at every port without a Service`,
    })),
    ...(others.length === 0
      ? []
      : [
          {
            ...base,
            kind: 'map-differs' as const,
            severity: served.length > 0 ? ('warning' as const) : ('info' as const),
            detail: `the kernel's map has ${plural(others.length, 'entry', 'entries')} that the agent does not have: ${someOf(others.map(({key}) => key))}`,
          },
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
  if (!settings.checksRanges || (given.length > 0 && own.length === 0)) return [];
  const isDeny = own.length > 0 && port.object.metadata.annotations?.['service.cilium.io/src-ranges-policy'] === 'deny';
  return entries
    .filter(({flags}) => flags[0] === 'LoadBalancer' || flags.includes('check source-range'))
    .flatMap(({key, id, flags}) => {
      const rows = ranges?.get(id) ?? [];
      const isChecked = flags.includes('check source-range');
      if (isChecked !== own.length > 0)
        return [
          isChecked
            ? `${key} in the kernel's map checks source ranges, and the Service has none`
            : `${key} in the kernel's map checks no source ranges: every client gets in`,
        ];
      if (own.length > 0 && flags.includes('deny') !== isDeny)
        return [
          `${key} in the kernel's map ${isDeny ? 'admits' : 'refuses'} the source ranges, the Service ${isDeny ? 'refuses' : 'admits'} them`,
        ];
      const [lacking, extra] = [own.filter(range => !rows.includes(range)), rows.filter(range => !own.includes(range))];
      if (ranges === null || own.length === 0 || (lacking.length === 0 && extra.length === 0)) return [];
      const texts = [
        lacking.length === 0 ? '' : `does not have ${someOf(lacking)}`,
        extra.length === 0 ? '' : `has ${someOf(extra)} besides`,
      ];
      return [`of the source ranges of ${key} the kernel's map ${texts.filter(text => text !== '').join(', and ')}`];
    })
    .map(detail => ciliumSymptom('source-ranges-mismatch', port, {detail}));
}
