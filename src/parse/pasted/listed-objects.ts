import {familyOf, joinHostPort} from '../../model/address.ts';
import type {EndpointSliceObject, EndpointsObject, PodObject, ServiceObject, SliceEndpoint} from '../../model/api-objects.ts';
import {pushTo} from '../../model/lists.ts';
import {once, onceAsked} from '../../model/once.ts';
import {someOf} from '../../model/text.ts';
import {attempt, type Fields, isObject} from '../attempt.ts';
import {podsIn} from './listed-pods.ts';
import {mixedRanges, nodeRow} from './listed-ranges.ts';
import {undecorate} from '../iptables/pasted-text.ts';
import {readYaml} from '../yaml-text.ts';

/** A row of a table that kubectl prints. */
interface Row {
  /** With its namespace where the table has them. */
  readonly name: string;
  /** The text of a column; empty if the table does not have it. */
  field(name: string): string;
}

/** The rows about Services and Endpoints that `kubectl get` prints. */
function rowsOf(lines: readonly string[]): readonly Row[] {
  let heading: readonly string[] = [];
  let place = 0;
  let listsEndpoints = false;
  let isCollapsed = false;
  const bare = (line: string): readonly Row[] => {
    const rows = bareRow(line, listsEndpoints);
    listsEndpoints = rows.some(({field}) => field('ENDPOINTS') !== '') || /\bget (?:ep|endpoints)\b/.test(line);
    return rows;
  };
  return lines.flatMap((line): readonly Row[] => {
    if (heading.length === 0 && !line.includes('NAME')) return bare(line);
    const text = undecorate(line).trim();
    // A page that renders a text as HTML drops <none>.
    const isBlank = place > 0 && text.slice(place - 2, place + 'ENDPOINTS'.length).trim() === '' && text.length > place;
    const isNarrow = isCollapsed || /^\S+(?: \S+)+ CLUSTER-IP /.test(text);
    isCollapsed = isNarrow;
    const row = (isBlank ? `${text.slice(0, place)}<none>${text.slice(place + '<none>'.length)}` : text).split(
      isNarrow ? ' ' : /\s{2,}|\t/,
    );
    if (row.includes('NAME') && row.some(field => /^(?:CLUSTER-IP|ENDPOINTS)$/.test(field))) {
      heading = row;
      place = text.indexOf('ENDPOINTS');
    } else if (row.length < heading.length) {
      heading = [];
      return bare(line);
    } else if (heading.length > 0) {
      const columns = heading;
      const field = (name: string): string => row[columns.indexOf(name)] ?? '';
      const name = [columns.includes('NAMESPACE') ? field('NAMESPACE') : [], field('NAME').replace(/^\w+\//, '')].flat().join('/');
      return [{name, field}];
    }
    return [];
  });
}

/** A row that `grep` or `--no-headers` left without its heading. Lists of other objects have empty columns too. */
function bareRow(line: string, mayBeEmpty: boolean): readonly Row[] {
  // Most lines are of other programs, and end otherwise.
  const text = line.trimEnd();
  if (!/[smhdy>]/.test(text.at(-1) ?? '')) return [];
  const [, ofService, type = '', address = '', external = '', ports = ''] = text.includes('/') ? (bareService.exec(text) ?? []) : [];
  const [, ofEndpoints, ends = ''] =
    ofService === undefined ? ((mayBeEmpty ? noEndpoints.exec(text) : null) ?? bareEndpoints.exec(text) ?? []) : [];
  const names = ofService ?? ofEndpoints;
  if (names === undefined) return [];
  const fields: Readonly<Record<string, string>> = {
    TYPE: type,
    'CLUSTER-IP': address,
    'EXTERNAL-IP': external,
    'PORT(S)': ports,
    ENDPOINTS: ends,
  };
  const name = names.split(/\s+/).map(part => part.replace(/^\w+\//, ''));
  return [{name: name.join('/'), field: column => fields[column] ?? ''}];
}

const bareService =
  /^\s*((?:[a-z0-9-]+\s+)?[a-z0-9/-]+)\s+(ClusterIP|NodePort|LoadBalancer)\s+([\da-f.:]+)\s+(\S+)\s+((?:\d+(?::\d+)?\/(?:TCP|UDP|SCTP),?)+)\s+\d/;
const bareEndpoints = /^\s*((?:[a-z0-9-]+\s+)?[a-z0-9-]+)\s+((?:\d+\.\d+\.\d+\.\d+:\d+,?)+(?: \+ \d+ more\.\.\.)?)\s+\d+[smhdy]\w*\s*$/;
const noEndpoints = /^\s*((?:[a-z0-9-]+\s+)?[a-z0-9-]+)\s+(<none>)\s+\d+[smhdy]\w*\s*$/;

/** What is to be said of the Services, endpoints and pods that a text lists, each a sentence; null if it lists none. Most telling first. */
export function listedObjects(lines: readonly string[]): readonly string[] | null {
  const rows = rowsOf(lines);
  const {empty, faults, selectors, notReady} = listedIn(lines);
  if (rows.length === 0 && empty.size === 0 && faults.length === 0 && !described(lines).some(({endpoints}) => endpoints !== null))
    return null;
  const pending = rows.filter(({field}) => field('EXTERNAL-IP') === '<pending>');
  const balancers = podsIn(lines).filter(({name, isReady}) => name.startsWith('svclb-') && !isReady);
  const placed = Map.groupBy(pending, ({name}) => balancers.some(pod => pod.name.startsWith(`svclb-${name.split('/').at(-1)}-`)));
  const namesOf = (own: readonly Row[] = []): readonly string[] => [
    ...new Set(own.map(({name, field}) => `${name} (${field('CLUSTER-IP')}, ${field('PORT(S)')})`)),
  ];
  const told = (names: readonly string[], text: string): readonly string[] => (names.length === 0 ? [] : [`${someOf(names)}: ${text}`]);
  const events = lines.flatMap(
    line => /^\s*Warning\s+\w*(?:LoadBalancer|Allocation)\w*\s.*\s{2,}(\S.*?)\s*$/.exec(undecorate(line))?.[1] ?? [],
  );
  const also = [...empty].flatMap(name => {
    const [namespace = 'default'] = name.includes('/') ? name.split('/') : [];
    const [selector, unready] = [selectors.get(name) ?? '', notReady.get(name)];
    return [
      unready === undefined ? [] : `None of the addresses of ${name} is ready (${unready})`,
      selector === '<none>'
        ? 'Without a selector its endpoints are those of an EndpointSlice or Endpoints that somebody writes: its name and ports must be those of the Service'
        : [],
      selector === '<none>' || selector === '' || faults.length > 0
        ? []
        : `Which pods it selects: kubectl get pods -n ${namespace} -l ${selector}`,
    ].flat();
  });
  return [
    ...told([...empty], 'no endpoint: kube-proxy refuses connections by design'),
    ...also.slice(0, 2),
    ...faults.map(text => `${text[0]?.toUpperCase()}${text.slice(1)}`),
    ...told(
      namesOf(placed.get(true)),
      `ServiceLB of k3s gives no address, since its pod ${someOf(balancers.map(({name, status}) => `${name} is ${status}`))}: mostly another Service of type LoadBalancer has the port (traefik has 80 and 443), or a program of the node. kubectl describe pod says which`,
    ),
    ...told(
      namesOf(placed.get(false)),
      'no controller (of a cloud, MetalLB) gave it an address, which kube-proxy never does. Its cluster IP and node ports do not depend on that',
    ),
    ...events.slice(-1).map(text => `Its load balancer is not set up, which kube-proxy never does: ${text}`),
    ...told(
      takenAddresses(lines, rows),
      'in IPVS mode every node gives such an address to kube-ipvs0 and no longer reaches its node, and in other modes the ports of the Service are no longer those of the node',
    ),
  ];
}

/** External IPs that are addresses of nodes. Those of load balancers may be: ServiceLB of k3s gives them. */
function takenAddresses(lines: readonly string[], rows: readonly Row[]): readonly string[] {
  const nodes = new Map(
    lines.flatMap(line => (nodeRow.test(line) ? [nodeRow.exec(line)?.slice(1, 3).toReversed() as [string, string]] : [])),
  );
  return rows.flatMap(({name, field}) => {
    const own = field('TYPE') === 'LoadBalancer' ? [] : field('EXTERNAL-IP').split(',');
    const taken = own.filter(address => nodes.has(address));
    return taken.map(address => `externalIPs of ${name} has ${address}, the address of node ${nodes.get(address)}`);
  });
}

/** What kubectl prints of a Service that has a cluster IP. */
export interface ListedService {
  /** With its namespace where the text has it. */
  readonly name: string;
  readonly clusterIPs: readonly string[];
  readonly ports: readonly ListedPort[];
  /** External IPs, and addresses of load balancers for which kube-proxy writes rules: of those that a list has without their `ipMode` it is not known. */
  readonly balancers?: readonly string[];
}

interface ListedPort {
  readonly protocol: string;
  readonly port: number;
  readonly nodePort: number | null;
}

/** Services and their endpoints as a text lists them. */
export interface Listed {
  readonly services: readonly ListedService[];
  /**
   * As `ip:port`, by the name of the Service, with its namespace where the text has it: those that are listed whole. kubectl writes
   * `+ 2 more...` where it leaves some out.
   */
  readonly endpoints: ReadonlyMap<string, ReadonlySet<string>>;
  /** Of these, the Services whose endpoints are listed as ready: EndpointSlices have others too. */
  readonly ready: ReadonlySet<string>;
  /** Services that are listed without an endpoint. */
  readonly empty: ReadonlySet<string>;
  /** What is wrong with the Services that the text has, each in a few words. */
  readonly faults: readonly string[];
  /** `app=web,tier=front`, `<none>`, or empty where the text does not have it. */
  readonly selectors: ReadonlyMap<string, string>;
  /** Addresses that are not ready, of Endpoints that have some. */
  readonly notReady: ReadonlyMap<string, string>;
}

/** What `kubectl get` and `kubectl describe` print of Services and endpoints, as tables and as YAML or JSON. */
export const listedIn = once((lines: readonly string[]): Listed => {
  const texts = new Map<string, string[]>();
  const services: ListedService[] = [];
  const inSlices = new Set<string>();
  const hasNoMode = onceAsked(() => lines.some(line => withoutMode.test(line)));
  // Of other types the column has spec.externalIPs.
  const isProgrammed = (type: string): boolean => type === 'ClusterIP' || type === 'NodePort' || (type === 'LoadBalancer' && hasNoMode());
  const withoutReady = new Set<string>();
  const selectors = new Map<string, string>();
  for (const {name, field} of rowsOf(lines)) {
    if (noService.test(name)) continue;
    selectors.set(name, field('SELECTOR'));
    if (field('ADDRESSTYPE') !== '') {
      const service = name.replace(/-[a-z0-9]{5}$/, '');
      inSlices.add(service);
      pushTo(texts, service, withPorts(field('ENDPOINTS'), field('PORTS')));
    } else if (field('ENDPOINTS') !== '') pushTo(texts, name, field('ENDPOINTS'));
    if (field('ADDRESSTYPE') === '' && field('ENDPOINTS') === '<none>') withoutReady.add(name);
    if (field('CLUSTER-IP') !== '')
      services.push({
        name,
        clusterIPs: [field('CLUSTER-IP')],
        ports: field('PORT(S)').split(',').flatMap(listedPort),
        balancers: isProgrammed(field('TYPE')) ? addressesIn(field('EXTERNAL-IP')) : [],
      });
  }
  const objects = fromObjects(lines, ofObject);
  const notReady = new Map<string, string>();
  for (const each of [...described(lines), ...objects]) {
    if ((each.notReady ?? '<none>') !== '<none>') notReady.set(each.name, each.notReady ?? '');
    if (each.selector !== undefined) selectors.set(each.name, each.selector);
    if (each.isOfSlice === true) inSlices.add(each.name);
    if (each.endpoints !== null) pushTo(texts, each.name, /^(?:<none>,?)*$/.test(each.endpoints) ? '<none>' : each.endpoints);
    if (each.clusterIPs.length > 0) services.push(each);
  }
  const isWhole = (list: readonly string[]): boolean => list.every(text => /^[\da-fA-F.:[\],]+$/.test(text));
  // EndpointSlices have those that are not ready, too.
  const empty = new Set([...texts].flatMap(([key, list]) => (list.every(text => text === '<none>') || withoutReady.has(key) ? [key] : [])));
  return {
    services: services.filter(({clusterIPs, ports}) => ports.length > 0 && clusterIPs.every(address => familyOf(address) !== null)),
    endpoints: new Map(
      [...texts].flatMap(([key, list]) => (isWhole(list) ? [[key, new Set(list.flatMap(text => text.split(',')))] as const] : [])),
    ),
    ready: new Set([...texts.keys()].filter(name => !inSlices.has(name))),
    empty,
    selectors,
    notReady,
    faults: [
      ...unselected(
        [...selectors].filter(([name]) => empty.has(name) || (!texts.has(name) && selectors.size <= maxUnlisted)),
        [...labelledPods(lines), ...fromObjects(lines, labelledBy)],
      ),
      ...unsliced(inSlices, new Set([...texts.keys()].filter(name => !empty.has(name)))),
      ...misnamedPorts(objects),
      ...fromObjects(lines, unmirrored),
      ...failedProbes(lines),
      ...(empty.size === 0 ? [] : unreadyPods(lines)),
      ...mixedRanges(lines, services, texts),
    ],
  };
});

/** Endpoints in which programs write who leads, until 1.20 and in provisioners: no Service has a dot in its name. */
const noService = /^(?:kube-system\/)?kube-(?:controller-manager|scheduler)$|\./;

/** MetalLB and kube-vip set no ipMode but VIP, and Kubernetes before 1.29 has no other. Up to 1.23 kube-proxy writes KUBE-XLB- and KUBE-FW-. */
const withoutMode = /metallb|kube-?vip|\bKUBE-XLB-|\sv1\.[12]\d\.\d/i;

function addressesIn(text: string): readonly string[] {
  return text.split(',').flatMap(part => (familyOf(part.trim()) === null ? [] : part.trim()));
}

/** Of a row of an EndpointSlice: each address with each port. */
function withPorts(addresses: string, ports: string): string {
  if (addresses === '<unset>') return '<none>';
  return addresses
    .split(',')
    .flatMap(address => ports.split(',').map(port => joinHostPort(address, /^\d+$/.test(port) ? Number(port) : NaN)))
    .join();
}

/** `80:30080/TCP`. */
function listedPort(text: string): readonly ListedPort[] {
  const [, port, nodePort, protocol = ''] = /^(\d+)(?::(\d+))?\/(TCP|UDP|SCTP)$/.exec(text.trim()) ?? [];
  return port === undefined ? [] : [{protocol, port: Number(port), nodePort: nodePort === undefined ? null : Number(nodePort)}];
}

/** A Service or its endpoints; null where the text tells nothing of these. */
interface ListedObject extends ListedService {
  readonly endpoints: string | null;
  readonly isOfSlice?: true;
  /** `app=web,tier=front`. */
  readonly selector?: string;
  readonly notReady?: string;
  /** Of its ports, where the text has them; empty for one without a name. */
  readonly portNames?: readonly string[];
}

/** The objects that `kubectl describe` prints, each as its fields. Labels are one a line. */
const describedFields = once((lines: readonly string[]): readonly ReadonlyMap<string, string>[] => {
  const found: Map<string, string>[] = [];
  let last = '';
  for (const line of lines) {
    if (!line.includes(':') && !(last === 'Labels' && line.includes('='))) continue;
    const text = undecorate(line);
    const more = last === 'Labels' ? /^\s+([\w./-]+=\S*)\s*$/.exec(text)?.[1] : undefined;
    const [, field = more === undefined ? '' : last, value = more ?? ''] = describedField.exec(text) ?? [];
    if (field !== '' || /^\s*(?:> )?\w+:/.test(text)) last = field;
    if (field === 'Name') found.push(new Map());
    // The first of pods is that of the pod, and others are of its containers.
    const fields = found.at(-1) ?? (/^(?:NotReady)?Addresses$/.test(field) ? found[found.push(new Map()) - 1] : undefined);
    if (field !== '' && value !== '') fields?.set(field, [fields.get(field) ?? [], value].flat().join());
    else if (field === 'Endpoints') fields?.set(field, fields.get(field) ?? '<none>');
  }
  return found;
});

const describedField =
  /^\s*(?:> )?(Name|Namespace|Node|Labels|IP|Port|NodePort|Endpoints|Addresses|NotReadyAddresses|Selector|LoadBalancer Ingress):\s*(.*?)\s*$/;

function described(lines: readonly string[]): readonly ListedObject[] {
  return describedFields(lines).map(fields => {
    const namespace = fields.get('Namespace');
    const name = `${namespace === undefined ? '' : `${namespace}/`}${fields.get('Name') ?? 'the Service'}`;
    // `kubectl describe pod` has addresses and ports, too.
    const address = fields.has('Node') ? undefined : fields.get('IP');
    const [own, nodePorts] = ['Port', 'NodePort'].map(field =>
      (fields.get(field) ?? '').split(',').map(text => text.split(/\s+/).at(-1) ?? ''),
    );
    const ports = (own ?? []).flatMap((text, at) =>
      listedPort(text).map(port => ({...port, nodePort: Number.parseInt(nodePorts?.[at] ?? '', 10) || null})),
    );
    const balancers = [...(fields.get('LoadBalancer Ingress') ?? '').matchAll(/([\d.]+|[\da-f:]+) \(VIP\)/g)].map(([, vip = '']) => vip);
    const clusterIPs = address?.split(',').slice(0, 1) ?? [];
    const [addresses, notReady = '<none>'] = [fields.get('Addresses'), fields.get('NotReadyAddresses')];
    const endpoints = fields.get('Endpoints') ?? (addresses === '<none>' || (addresses === undefined && notReady !== '<none>') ? '' : null);
    return {name, clusterIPs, ports, balancers, endpoints, notReady, selector: fields.get('Selector') ?? ''};
  });
}

/** Objects of the API that stand in a text as YAML or JSON. A part that cannot be read tells nothing. */
const objectsIn = once((lines: readonly string[]): readonly Fields[] => {
  const objects: Fields[] = [];
  const take = (value: unknown): void => {
    if (!isObject(value)) return;
    if (Array.isArray(value['items'])) value['items'].forEach(take);
    else objects.push(value);
  };
  for (let at = 0; at < lines.length; at++) {
    const [, margin, first] = /^(\s*)(?:- )?(?:(apiVersion|kind): |\{\s*$)/.exec(lines[at] ?? '') ?? [];
    if (margin === undefined || (first === undefined && margin !== '')) continue;
    const own = [(lines[at] ?? '').slice(margin.length)];
    let end = at + 1;
    for (; end < lines.length; end++) {
      const line = lines[end] ?? '';
      const text = line.trim() === '' ? '' : line.slice(margin.length);
      // Programs begin what went wrong with their name.
      const belongs = /^(?!(?:curl|wget|nc|error|warning): )(?:\s|$|- |[\w.-]+:(?: |$)|\}|# )/i.test(text);
      if (!belongs || (text !== '' && !line.startsWith(margin))) break;
      own.push(text);
    }
    const text = own.join('\n');
    // Fields may hold anything.
    attempt(() => [readYaml(text)].flat().forEach(take));
    at = end - 1;
  }
  return objects;
});

/** What is made of the objects that a text has as YAML or JSON. Their fields may hold anything: one of which nothing can be made is left out. */
export function fromObjects<T>(lines: readonly string[], make: (object: Fields) => T | readonly T[]): readonly T[] {
  return objectsIn(lines).flatMap(object => {
    const made = attempt(() => make(object));
    return made instanceof Error ? [] : made;
  });
}

function ofObject(object: Fields): ListedObject | readonly ListedObject[] {
  const {kind, spec, metadata} = object as ServiceObject & EndpointSliceObject & EndpointsObject & {readonly kind?: unknown};
  const named = (name = ''): string => (metadata?.namespace === undefined ? name : `${metadata.namespace}/${name}`);
  const none = {clusterIPs: [], ports: []};
  const namesOf = (ports: readonly {readonly name?: string | null | undefined}[]): readonly string[] => ports.map(({name}) => name ?? '');
  // Another proxy serves it.
  if (kind === 'Service' && metadata?.labels?.['service.kubernetes.io/service-proxy-name'] !== undefined) return [];
  if (kind === 'Service') {
    const {clusterIP, clusterIPs, ports} = spec ?? {};
    const all = (ports ?? []).map(({port = 0, protocol = 'TCP', nodePort}) => ({protocol, port, nodePort: nodePort ?? null}));
    const ingress = (object as ServiceObject).status?.loadBalancer?.ingress ?? [];
    const balancers = ingress.flatMap(({ip, ipMode}) => (ip !== undefined && ipMode === 'VIP' ? ip : []));
    return {
      name: named(metadata?.name),
      clusterIPs: clusterIPs ?? [clusterIP ?? ''],
      ports: all,
      balancers,
      endpoints: null,
      selector: pairsOf(spec?.selector).join(),
      portNames: namesOf(ports ?? []),
    };
  }
  if (kind === 'EndpointSlice') {
    const {endpoints, ports} = object as EndpointSliceObject;
    const isServing = ({conditions}: SliceEndpoint): boolean =>
      conditions?.ready !== false || (conditions.serving === true && conditions.terminating === true);
    const all = (endpoints ?? []).some(isServing) ? (endpoints ?? []) : [];
    const addresses = all.flatMap(({addresses}) => addresses?.[0] ?? []);
    const ends = addresses.flatMap(address => (ports ?? []).map(({port}) => joinHostPort(address, port ?? 0)));
    const name = named(metadata?.labels?.['kubernetes.io/service-name']);
    return {...none, name, endpoints: ends.join(), isOfSlice: true, portNames: namesOf(ports ?? [])};
  }
  if (kind !== 'Endpoints') return [];
  const subsets = (object as EndpointsObject).subsets ?? [];
  const ends = subsets.flatMap(({addresses, ports}) =>
    (addresses ?? []).flatMap(({ip = ''}) => (ports ?? []).map(({port}) => joinHostPort(ip, port ?? 0))),
  );
  const portNames = subsets.flatMap(({ports}) => namesOf(ports ?? []));
  return {...none, name: named(metadata?.name), endpoints: ends.join(), portNames};
}

/** A pod, or what makes pods, with the labels that it gives them. */
interface Labelled {
  readonly what: string;
  /** Empty where the text does not have it. */
  readonly namespace: string;
  readonly labels: readonly string[];
  /** It may have others. */
  readonly areSome?: boolean;
  /** `0/1 CrashLoopBackOff` of a pod that is not ready. */
  readonly unready: string | null;
}

/** Services with Endpoints and without an EndpointSlice, where lists of both have default/kubernetes and so are those of a namespace. */
function unsliced(slices: ReadonlySet<string>, all: ReadonlySet<string>): readonly string[] {
  const lacking = [...all].filter(name => !name.includes('/') && !slices.has(name));
  return slices.has('kubernetes') && all.has('kubernetes') && lacking.length > 0
    ? [
        `Endpoints of ${someOf(lacking)} are in no EndpointSlice, which kube-proxy follows: it knows no endpoint and refuses connections. kube-controller-manager writes both`,
      ]
    : [];
}

/** A list of all Services may stand beside one of some pods. */
const maxUnlisted = 2;

function unselected(selectors: readonly (readonly [string, string])[], pods: readonly Labelled[]): readonly string[] {
  return selectors.flatMap(([name, selector]) => {
    const [own = '', service = own] = name.split('/');
    const namespace = service === own ? '' : own;
    const near = pods.filter(pod => namespace === '' || pod.namespace === '' || pod.namespace === namespace);
    const wanted = selector.split(',');
    if (near.length === 0 || !/^[\w./-]+=[^<\s]*$/.test(wanted[0] ?? '')) return [];
    const selected = near.filter(({labels}) => wanted.every(label => labels.includes(label)));
    if (selected.length === 0) {
      if (near.some(({areSome}) => areSome === true)) return [];
      const others = near.slice(0, 1).map(({what, labels}) => `${what} has ${labels.length === 0 ? 'none' : labels.join(', ')}`);
      return `no pod of this text has the labels of the selector of ${name} (${selector}): ${others.join()}`;
    }
    return selected.every(({unready}) => unready !== null)
      ? `the pods that the selector of ${name} matches are not ready: ${someOf(selected.map(({what, unready}) => `${what} (${unready})`))}`
      : [];
  });
}

/** Endpoints that somebody wrote, and that no controller copies for kube-proxy. */
function unmirrored({kind, metadata}: Fields): readonly string[] {
  const {name = '', labels, annotations} = (metadata ?? {}) as NonNullable<ServiceObject['metadata']>;
  return kind === 'Endpoints' &&
    labels?.['endpointslice.kubernetes.io/skip-mirror'] === 'true' &&
    annotations?.['control-plane.alpha.kubernetes.io/leader'] === undefined
    ? [
        `Endpoints ${name} have the label endpointslice.kubernetes.io/skip-mirror: no EndpointSlice is made of them, which kube-proxy follows`,
      ]
    : [];
}

/** kube-proxy finds the endpoints of a port by its name. */
function misnamedPorts(objects: readonly ListedObject[]): readonly string[] {
  return objects.flatMap(({name, ports, portNames = []}) => {
    const own =
      ports.length === 0 ? [] : objects.filter(other => other.name === name && other.endpoints !== null && other.endpoints !== '');
    const names = new Set(own.flatMap(other => other.portNames ?? []));
    const lacked = own.length === 0 ? [] : portNames.filter(port => !names.has(port));
    const text = (all: readonly string[]): string => someOf(all.map(port => (port === '' ? 'without a name' : port)));
    return lacked.length === 0 ? [] : `port ${text(lacked)} of ${name} has no endpoint: the ports of its endpoints are ${text([...names])}`;
  });
}

/** In the events of `kubectl describe pod`, and in the status of a pod whose containers are ready. */
function failedProbes(lines: readonly string[]): readonly string[] {
  const probes = lines.flatMap(line => /\bReadiness probe failed: .*[^\s.]/.exec(line)?.[0] ?? []);
  const isUnready = (at: number): boolean =>
    lines.slice(Math.max(0, at - 6), at + 6).some(line => /^\s*type: "?Ready"?\s*$/.test(line)) &&
    lines.some(line => /^\s*(?:- )?containerStatuses:/.test(line));
  const conditions = lines.flatMap((line, at) =>
    /^\s*(?:- )?status: "?False"?\s*$/.test(line) && isUnready(at) ? ['its condition Ready is False'] : [],
  );
  return [...new Set([...probes, ...conditions])]
    .slice(0, 1)
    .map(text => `a pod is not ready, and so is no endpoint of its Services (${text})`);
}

/** Pods of a text that has a Service without endpoints, and none of their labels. */
function unreadyPods(lines: readonly string[]): readonly string[] {
  const own = podsIn(lines).filter(({isReady, status, labels}) => !isReady && labels === null && status !== 'Completed');
  return own.length === 0
    ? []
    : [`a pod that is not ready is no endpoint of its Services: ${someOf(own.map(({name, status}) => `${name} (${status})`))}`];
}

/** Pods of `kubectl get pods` and `kubectl describe pod`, where the text has their labels. */
function labelledPods(lines: readonly string[]): readonly Labelled[] {
  const rows = podsIn(lines).flatMap(({name, namespace, labels, isReady, status, areAsked: areSome}) =>
    labels === null ? [] : [{what: name, namespace, labels, areSome, unready: isReady ? null : status}],
  );
  const pods = describedFields(lines).flatMap(fields =>
    fields.has('Node') && fields.has('Labels')
      ? [
          {
            what: `pod ${fields.get('Name')}`,
            namespace: fields.get('Namespace') ?? '',
            labels: (fields.get('Labels') ?? '').split(','),
            unready: null,
          },
        ]
      : [],
  );
  return [...rows, ...pods];
}

/** A pod or what makes pods, with the ports that its containers declare. */
export function labelledBy(
  object: Fields,
): readonly [] | (Labelled & {readonly ports: readonly DeclaredPort[]; readonly images: readonly string[]}) {
  const {kind, metadata, spec} = object as Fields & PodTemplate & {readonly spec?: {readonly template?: PodTemplate}};
  const pod: PodTemplate | undefined = kind === 'Pod' ? {metadata, spec} : spec?.template;
  if (typeof kind !== 'string' || pod === undefined) return [];
  return {
    what: `${kind} ${metadata?.name ?? ''}`,
    namespace: metadata?.namespace ?? '',
    labels: pairsOf(pod.metadata?.labels),
    unready: null,
    ports: (pod.spec?.containers ?? []).flatMap(({ports}) => ports ?? []),
    // A file, an argument or a variable may tell the program to listen elsewhere.
    images: (pod.spec?.containers ?? []).flatMap(each =>
      ['args', 'command', 'env', 'envFrom', 'volumeMounts'].some(field => field in each) ? [] : (each.image ?? []),
    ),
  };
}

interface PodTemplate {
  readonly metadata?: PodObject['metadata'] | undefined;
  readonly spec?: {readonly containers?: readonly {readonly image?: string; readonly ports?: readonly DeclaredPort[]}[]} | undefined;
}

export interface DeclaredPort {
  readonly name?: string;
  readonly containerPort?: number;
}

export function pairsOf(labels: Readonly<Record<string, string>> | null | undefined): readonly string[] {
  return Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`);
}
