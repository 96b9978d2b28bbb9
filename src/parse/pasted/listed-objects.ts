import {familyOf, joinHostPort} from '../../model/address.ts';
import type {EndpointSliceObject, EndpointsObject, ServiceObject, SliceEndpoint} from '../../model/api-objects.ts';
import {pushTo} from '../../model/lists.ts';
import {once, onceAsked} from '../../model/once.ts';
import {someOf} from '../../model/text.ts';
import type {Fields} from '../attempt.ts';
import {failedProbes, podsIn, strangeEnds, unreadyEnds, unreadyPods, unselected} from './listed-pods.ts';
import {mixedRanges, nodeRow} from './listed-ranges.ts';
import {withoutFrame} from '../iptables/pasted-text.ts';
import {describedFields, fromObjects, pairsOf} from './objects-in-text.ts';

/** A row of a table that kubectl prints. */
interface Row {
  /** With its namespace where the table has them. */
  readonly name: string;
  /** The text of a column; empty if the table does not have it. */
  field(name: string): string;
}

/** The rows about Services and Endpoints that `kubectl get` prints. */
function rowsOf(lines: readonly string[]): readonly Row[] {
  let heading: Heading | null = null;
  let listsEndpoints = false;
  const bare = (line: string): readonly Row[] => {
    const rows = bareRow(line, listsEndpoints);
    listsEndpoints = rows.some(({field}) => field('ENDPOINTS') !== '') || /\bget (?:ep|endpoints)\b/.test(line);
    return rows;
  };
  return lines.flatMap((line): readonly Row[] => {
    if (heading === null && !line.includes('NAME')) return bare(line);
    if (/^[\s|+=-]+$/.test(line)) return [];
    const text = withoutFrame(line).trimEnd();
    if (/\bNAME\b/.test(text) && /\b(?:CLUSTER-IP|ENDPOINTS)\b/.test(text)) {
      heading = headingOf(text);
      return [];
    }
    const cells = heading === null ? [] : cellsOf(text, heading);
    // The age may be left out.
    if (heading === null || cells.length < heading.columns.length - (heading.columns.at(-1) === 'AGE' ? 1 : 0)) {
      heading = null;
      return bare(line);
    }
    const {columns} = heading;
    const field = (name: string): string => cells[columns.indexOf(name)] ?? '';
    const name = [columns.includes('NAMESPACE') ? field('NAMESPACE') : [], field('NAME').replace(/^\w+\//, '')].flat().join('/');
    return [{name, field}];
  });
}

interface Heading {
  readonly columns: readonly string[];
  /** Where each begins. */
  readonly places: readonly number[];
  /** Somebody made one space of several. */
  readonly isNarrow: boolean;
}

function headingOf(text: string): Heading {
  const isNarrow = /^\s*\S+(?: \S+)+ CLUSTER-IP /.test(text);
  const columns = text.trim().split(isNarrow ? ' ' : /\s{2,}|\t/);
  let end = 0;
  const places = columns.map(column => {
    const place = text.indexOf(column, end);
    end = place + column.length;
    return place;
  });
  return {columns, places, isNarrow};
}

/** In their places, where some may be empty, or one after another. A page that renders a text as HTML drops <none>. */
function cellsOf(text: string, {columns, places, isNarrow}: Heading): readonly string[] {
  const isPlaced =
    !isNarrow &&
    text.length > (places.at(-1) ?? 0) &&
    places.every(place => place === 0 || text[place - 1] === ' ') &&
    text[places[0] ?? 0] !== ' ';
  if (!isPlaced) return text.trim().split(isNarrow ? ' ' : /\s{2,}|\t/);
  return columns.map((column, at) => text.slice(places[at], places[at + 1]).trim() || (column === 'ENDPOINTS' ? '<none>' : ''));
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
  const {empty, faults, selectors, notReady, headless} = listedIn(lines);
  if (rows.length === 0 && empty.size === 0 && !describedObjects(lines).some(({endpoints}) => endpoints !== null)) return null;
  const pending = rows.filter(({field}) => field('EXTERNAL-IP') === '<pending>');
  const balancers = podsIn(lines).filter(({name, isReady}) => name.startsWith('svclb-') && !isReady);
  const placed = Map.groupBy(pending, ({name}) => balancers.some(pod => pod.name.startsWith(`svclb-${name.split('/').at(-1)}-`)));
  const namesOf = (own: readonly Row[] = []): readonly string[] => [
    ...new Set(own.map(({name, field}) => `${name} (${field('CLUSTER-IP')}, ${field('PORT(S)')})`)),
  ];
  const told = (names: readonly string[], text: string): readonly string[] => (names.length === 0 ? [] : [`${someOf(names)}: ${text}`]);
  const events = lines.flatMap(line => /^\s*Warning\s+\w*(?:LoadBalancer|Allocation)\w*\s.*\s{2,}(\S.*?)\s*$/.exec(line)?.[1] ?? []);
  const also = [...empty].flatMap(name => {
    const [namespace = 'default'] = name.includes('/') ? name.split('/') : [];
    const [selector, unready] = [selectors.get(name) ?? '', notReady.get(name)];
    return [
      unready === undefined
        ? []
        : `None of the addresses of ${name} is ready (${unready})${podsIn(lines).some(({ip, isReady}) => ip === unready && isReady) ? ', and kubectl lists the pod as ready: the controller that writes endpoints does not follow, or one list is older' : ''}`,
      selector === '<none>'
        ? 'Without a selector its endpoints are those of an EndpointSlice or Endpoints that somebody writes: its name and ports must be those of the Service'
        : [],
      selector === '<none>' || selector === '' || faults.length > 0
        ? []
        : `Which pods it selects: kubectl get pods -n ${namespace} -l ${selector}`,
    ].flat();
  });
  return [
    ...told(
      [...empty].filter(name => !headless.has(name)),
      'no endpoint: kube-proxy refuses connections by design',
    ),
    ...told(
      [...empty].filter(name => headless.has(name)),
      'no endpoint: it is headless, so that its name has no address, and kube-proxy has no rule for it',
    ),
    ...also.slice(0, 2),
    ...told(
      namesOf(placed.get(true)),
      `ServiceLB of k3s gives no address, since its pod ${someOf(balancers.map(({name, status}) => `${name} is ${status}`))}: mostly another Service of type LoadBalancer has the port (traefik has 80 and 443), or a program of the node. kubectl describe pod says which`,
    ),
    ...told(
      namesOf(placed.get(false)),
      'no controller (of a cloud, MetalLB) gave it an address, which kube-proxy never does. Its cluster IP and node ports do not depend on that',
    ),
    ...events.slice(-1).map(text => `Its load balancer is not set up, which kube-proxy never does: ${text}`),
    ...alike(rows),
    ...told(
      takenAddresses(lines, rows),
      'in IPVS mode every node gives such an address to kube-ipvs0 and no longer reaches its node, and in other modes the ports of the Service are no longer those of the node',
    ),
  ];
}

/** Services of one kind and of the same pods and ports. */
function alike(rows: readonly Row[]): readonly string[] {
  const own = rows.filter(({field}) => field('SELECTOR').includes('=') && field('CLUSTER-IP') !== 'None');
  const fields = (row: Row): string => [row.name.split('/').slice(0, -1), ...['TYPE', 'PORT(S)', 'SELECTOR'].map(row.field)].join(' ');
  return [...Map.groupBy(own, fields).values()].flatMap(all => {
    const names = [...new Set(all.map(({name}) => name.replace(/^.*\//, '')))];
    const [first = '', ...others] = names.toSorted((a, b) => a.length - b.length);
    if (others.length === 0 || others.some(name => name.includes(first))) return [];
    return `${someOf(names)} have one selector (${all[0]?.field('SELECTOR')}), and so the same pods: where each is meant to have its own, a label must tell these apart`;
  });
}

/** External IPs that are addresses of nodes. Those of load balancers may be: ServiceLB of k3s gives them. */
function takenAddresses(lines: readonly string[], rows: readonly Row[]): readonly string[] {
  const nodes = new Map(
    lines.flatMap(line => {
      const [, node, ip] = nodeRow.exec(line) ?? [];
      return ip === undefined ? [] : [[ip, node] as const];
    }),
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
  readonly name?: string | null;
  /** Where a text has it, with that which a Service has by default. */
  readonly targetPort?: number | string | undefined;
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
  /** Services without a cluster IP, by design. */
  readonly headless: ReadonlySet<string>;
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
  const unset = new Map<string, string[]>();
  const selectors = new Map<string, string>();
  for (const {name, field} of rowsOf(lines)) {
    if (noService.test(name)) continue;
    if (field('SELECTOR') !== '') selectors.set(name, field('SELECTOR'));
    if (field('ADDRESSTYPE') !== '') {
      const service = name.replace(/-[a-z0-9]{5}$/, '');
      inSlices.add(service);
      if (field('PORTS') === '<unset>' && field('ENDPOINTS') !== '<unset>') pushTo(unset, service, field('ENDPOINTS'));
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
  const described = describedObjects(lines);
  const all = [...described, ...objects];
  const ofSlices = new Set([...inSlices, ...described.map(({name}) => name)]);
  for (const each of all) {
    if ((each.notReady ?? '<none>') !== '<none>') notReady.set(each.name, each.notReady ?? '');
    if ((each.selector ?? '') !== '') selectors.set(each.name, each.selector ?? '');
    if (each.isOfSlice === true) inSlices.add(each.name);
    if (each.endpoints !== null) pushTo(texts, each.name, /^(?:<none>,?)*$/.test(each.endpoints) ? '<none>' : each.endpoints);
    if (each.clusterIPs.length > 0) services.push(each);
  }
  // A part of a Service is that of the one without endpoints.
  const part = selectors.get('');
  selectors.delete('');
  const isWhole = (list: readonly string[]): boolean => list.every(text => /^[\da-fA-F.:[\],]+$/.test(text));
  // EndpointSlices have those that are not ready, too.
  const empty = new Set([...texts].flatMap(([key, list]) => (list.every(text => text === '<none>') || withoutReady.has(key) ? [key] : [])));
  const [bare = 'the Service', ...others] = [...empty].filter(name => (selectors.get(name) ?? '') === '');
  if (part !== undefined) selectors.set(others.length === 0 ? bare : 'the Service', part);
  return {
    services: services.filter(({clusterIPs, ports}) => ports.length > 0 && clusterIPs.every(address => familyOf(address) !== null)),
    endpoints: new Map(
      [...texts].flatMap(([key, list]) => (isWhole(list) ? [[key, new Set(list.flatMap(text => text.split(',')))] as const] : [])),
    ),
    ready: new Set([...texts.keys()].filter(name => !inSlices.has(name))),
    empty,
    headless: new Set(services.flatMap(({name, clusterIPs}) => (clusterIPs.includes('None') ? name : []))),
    selectors,
    notReady,
    faults: [
      ...unselected(
        lines,
        [...selectors].filter(([name]) => empty.has(name) || (!texts.has(name) && selectors.size <= maxUnlisted)),
        name => (empty.has(name) ? namedTarget(all.find(each => each.name === name)) : undefined),
      ),
      ...unsliced(inSlices, new Set([...texts.keys()].filter(name => !empty.has(name)))),
      ...misnamedPorts(all),
      // A headless Service may have no ports at all.
      ...[...unset].flatMap(([name, own]) =>
        texts.get(name)?.some(text => /:\d+(?:,|$)/.test(text)) === true
          ? `${someOf(own)} of ${name} has no port (<unset>): no container of that pod declares a port of the name that is its targetPort, so that it is no endpoint`
          : [],
      ),
      ...unmirrored(lines),
      ...failedProbes(lines),
      ...[...texts].flatMap(([name, list]) => [
        ...(ofSlices.has(name) ? unreadyEnds(lines, name, list.join().split(',')) : []),
        ...(isWhole(list) ? strangeEnds(lines, name, list.join().split(',')) : []),
      ]),
      ...all.flatMap(({name, strange = []}) =>
        strange.length === 0
          ? []
          : `${someOf(strange)} of ${name} is of a family that the Service does not have: ipFamilyPolicy PreferDualStack asks for both`,
      ),
      ...(empty.size === 0 ? [] : unreadyPods(lines)),
      ...mixedRanges(lines, services, texts),
    ],
  };
});

/** The name of a target port; empty if it has none. */
function namedTarget(service: ListedObject | undefined): string {
  const named = service?.ports.find(({targetPort}) => /[a-z]/.test(String(targetPort ?? '')));
  return String(named?.targetPort ?? '');
}

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

/** The Services that a text has as objects or described. */
export const writtenServices = once((lines: readonly string[]): readonly WrittenService[] =>
  [
    ...describedObjects(lines).filter(({ports}) => ports.some(({targetPort}) => targetPort !== undefined)),
    ...fromObjects(lines, ofObject),
  ].flatMap(({name, ports, selector}) => {
    if (selector === undefined) return [];
    const [own = '', service = own] = name.split('/');
    const wanted = selector.split(',').filter(label => label.includes('='));
    return {name: service === '' ? `${name}the Service` : name, namespace: service === own ? '' : own, wanted, ports};
  }),
);

interface WrittenService {
  readonly name: string;
  readonly namespace: string;
  /** `app=web`, each. */
  readonly wanted: readonly string[];
  readonly ports: readonly ListedPort[];
}

/** A Service or its endpoints; null where the text tells nothing of these. */
interface ListedObject extends ListedService {
  readonly endpoints: string | null;
  readonly isOfSlice?: true;
  /** `app=web,tier=front`. */
  readonly selector?: string;
  readonly notReady?: string;
  /** Addresses outside of the families of its cluster IPs. */
  readonly strange?: readonly string[];
  /** Of its ports, where the text has them; empty for one without a name. */
  readonly portNames?: readonly string[];
}

function describedObjects(lines: readonly string[]): readonly ListedObject[] {
  return describedFields(lines).map(fields => {
    const namespace = fields.get('Namespace');
    const name = `${namespace === undefined ? '' : `${namespace}/`}${fields.get('Name') ?? 'the Service'}`;
    // `kubectl describe pod` has addresses and ports, too.
    const address = fields.has('Node') ? undefined : fields.get('IP');
    const [own, nodePorts, targets] = ['Port', 'NodePort', 'TargetPort'].map(field =>
      (fields.get(field) ?? '').split(',').map(text => text.split(/\s+/).at(-1) ?? ''),
    );
    const ports = (own ?? []).flatMap((text, at) =>
      listedPort(text).map(port => ({
        ...port,
        nodePort: Number.parseInt(nodePorts?.[at] ?? '', 10) || null,
        targetPort: targets?.[at]?.replace(/\/\w+$/, '') || undefined,
      })),
    );
    const balancers = [...(fields.get('LoadBalancer Ingress') ?? '').matchAll(/([\d.]+|[\da-f:]+) \(VIP\)/g)].map(([, vip = '']) => vip);
    const clusterIPs = address?.split(',').slice(0, 1) ?? [];
    const [addresses, notReady = '<none>'] = [fields.get('Addresses'), fields.get('NotReadyAddresses')];
    const endpoints = fields.get('Endpoints') ?? (addresses === '<none>' || (addresses === undefined && notReady !== '<none>') ? '' : null);
    // A Deployment has a selector, too.
    const isService = ['IP', 'Port', 'Endpoints'].some(field => fields.has(field));
    const portNames = (fields.get('Port') ?? '').split(',').map(text => /^([a-z][\w-]*)\s/.exec(text)?.[1] ?? '');
    const selector = isService ? (fields.get('Selector') ?? '') : '';
    const outside = ['LoadBalancer Ingress', 'External IPs'].flatMap(field => (fields.get(field) ?? '').split(/[\s,]+/));
    const strange = ofOtherFamilies((fields.get('IPs') ?? '').split(','), outside);
    return {name, clusterIPs, ports, balancers, endpoints, notReady, selector, portNames, strange};
  });
}

/** Addresses of a family that no cluster IP has. */
function ofOtherFamilies(own: readonly string[], outside: readonly string[]): readonly string[] {
  const known = own.map(address => familyOf(address));
  return known.every(family => family === null) ? [] : outside.filter(address => ![null, ...known].includes(familyOf(address)));
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
    const all = (ports ?? []).map(each => ({
      ...each,
      port: each.port ?? 0,
      protocol: each.protocol ?? 'TCP',
      nodePort: each.nodePort ?? null,
      targetPort: each.targetPort ?? each.port,
    }));
    const ingress = (object as ServiceObject).status?.loadBalancer?.ingress ?? [];
    const balancers = ingress.flatMap(({ip, ipMode}) => (ip !== undefined && ipMode === 'VIP' ? ip : []));
    const outside = [...(spec?.externalIPs ?? []), ...ingress.flatMap(({ip}) => ip ?? [])];
    return {
      name: named(metadata?.name),
      clusterIPs: clusterIPs ?? [clusterIP ?? ''],
      strange: ofOtherFamilies(clusterIPs ?? [], outside),
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
    return {
      ...none,
      name,
      endpoints: ends.length === 0 && addresses.length > 0 ? null : ends.join(),
      isOfSlice: true,
      portNames: namesOf(ports ?? []),
    };
  }
  if (kind !== 'Endpoints') return [];
  const subsets = (object as EndpointsObject).subsets ?? [];
  const ends = subsets.flatMap(({addresses, ports}) =>
    (addresses ?? []).flatMap(({ip = ''}) => (ports ?? []).map(({port}) => joinHostPort(ip, port ?? 0))),
  );
  const portNames = subsets.flatMap(({ports}) => namesOf(ports ?? []));
  // A text that ends before the ports does not show whether there are any.
  const isTruncated = ends.length === 0 && subsets.some(({addresses}) => (addresses ?? []).length > 0);
  const notReady = subsets.flatMap(({notReadyAddresses}) => (notReadyAddresses ?? []).flatMap(({ip}) => ip ?? [])).join();
  return {
    ...none,
    name: named(metadata?.name),
    endpoints: isTruncated ? null : ends.join(),
    portNames,
    ...(ends.length === 0 && notReady !== '' ? {notReady} : {}),
  };
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

/** Endpoints that somebody wrote, and that no controller copies for kube-proxy. */
function unmirrored(lines: readonly string[]): readonly string[] {
  return fromObjects(lines, object => {
    const {kind, metadata} = object as Fields & EndpointsObject;
    return kind === 'Endpoints' &&
      metadata?.labels?.['endpointslice.kubernetes.io/skip-mirror'] === 'true' &&
      metadata.annotations?.['control-plane.alpha.kubernetes.io/leader'] === undefined
      ? `Endpoints ${metadata.name} have the label endpointslice.kubernetes.io/skip-mirror: no EndpointSlice is made of them, which kube-proxy follows`
      : [];
  });
}

/** Of two names one may be without its namespace. */
function isSame(one: string, other: string): boolean {
  return one === other || one.endsWith(`/${other}`) || other.endsWith(`/${one}`);
}

/** kube-proxy finds the endpoints of a port by its name. */
function misnamedPorts(objects: readonly ListedObject[]): readonly string[] {
  const shortName = (name: string): string => name.replace(/^.*\//, '');
  const ends = objects.filter(({ports, endpoints}) => ports.length === 0 && (endpoints ?? '') !== '');
  const endsByName = Map.groupBy(ends, ({name}) => shortName(name));
  return objects.flatMap(({name, clusterIPs, ports, portNames = []}) => {
    const alike = clusterIPs.length === 0 || ports.length === 0 ? [] : (endsByName.get(shortName(name)) ?? []);
    const own = alike.filter(other => isSame(other.name, name));
    const names = new Set(own.flatMap(other => other.portNames ?? []));
    const lacked = own.length === 0 ? [] : portNames.filter(port => !names.has(port));
    const text = (all: readonly string[]): string => someOf(all.map(port => (port === '' ? 'without a name' : port)));
    return lacked.length === 0 ? [] : `port ${text(lacked)} of ${name} has no endpoint: the ports of its endpoints are ${text([...names])}`;
  });
}
