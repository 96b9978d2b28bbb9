import type {PodObject} from '../../model/api-objects.ts';
import {someOf} from '../../model/text.ts';
import {type Listed, type ListedService, writtenServices} from './listed-objects.ts';
import {podsWithLabels} from './listed-pods.ts';
import {fromObjects, madeOf, pairsOf} from './objects-in-text.ts';

/** Services whose target port no container of the pods that they select declares. */
export function undeclaredPorts(lines: readonly string[]): readonly string[] {
  const services = writtenServices(lines).filter(({ports}) => ports.length > 0);
  const makers = podsWithLabels(lines).filter(({ports = [], usual = []}) => ports.length > 0 || usual.length > 0);
  return madeOf(services, ({name, namespace, wanted, ports: asked}) => {
    const selected =
      wanted.length === 0
        ? []
        : makers.filter(
            pod => (namespace === '' || [namespace, ''].includes(pod.namespace)) && wanted.every(label => pod.labels.includes(label)),
          );
    // Of a part of a Service or a pod the labels may be left out.
    const parts = services.length > 1 ? [] : makers.filter(({labels}) => labels.length === 0 || wanted.length === 0);
    const isPart = name === 'the Service' || parts.some(({what}) => what === 'the pod');
    const [maker, ...others] = selected.length === 0 && isPart ? parts : selected;
    if (maker === undefined || others.length > 0) return [];
    const {ports: declaredPorts = [], usual = []} = maker;
    const ports: (typeof declaredPorts)[number][] = [...declaredPorts, ...usual.map(({port}) => ({containerPort: port}))];
    const declared = someOf(
      (declaredPorts.length > 0 ? declaredPorts : ports).map(
        ({name: own, containerPort}) => `${containerPort}${own === undefined ? '' : ` (${own})`}`,
      ),
    );
    const verb = declaredPorts.length > 0 ? 'declares' : 'declares none and has an image that listens by default on';
    return asked.flatMap(({targetPort}) => {
      const isNumber = /^\d+$/.test(String(targetPort));
      if (ports.some(each => (isNumber ? each.containerPort === Number(targetPort) : each.name === targetPort))) return [];
      if (isNumber)
        return `${name} sends to port ${targetPort} (targetPort), and ${maker.what} ${verb} ${declared}: unless a program listens on ${targetPort} all the same, connections are refused`;
      // kubectl describe prints no names of ports.
      if (targetPort === undefined || (!ports.some(each => 'name' in each) && maker.what.startsWith('pod '))) return [];
      return `${name} sends to the port "${targetPort}" (targetPort), and ${maker.what} ${verb} ${declared}: without a port of that name the pods are no endpoints`;
    });
  });
}

/** Ports that a container declares, and at which the program of its image does not listen by itself. */
export function unusualPorts(lines: readonly string[]): readonly string[] {
  return podsWithLabels(lines).flatMap(({what, usual = []}) =>
    usual.flatMap(({port, image, declared}) =>
      declared.length === 0 || declared.includes(port)
        ? []
        : `${what} declares port ${someOf(declared.map(String))}, and ${image} listens by default on ${port}: what a container declares changes nothing of that, and connections to ${declared.length === 1 ? 'it' : 'them'} are refused`,
    ),
  );
}

/** Ports that an Ingress names of a Service of the text, which has others. */
export function ingressPorts(lines: readonly string[], listed: readonly ListedService[]): readonly string[] {
  if (!lines.some(line => line.includes('Ingress'))) return [];
  return fromObjects(lines, ({kind, metadata, spec}) => {
    if (kind !== 'Ingress') return [];
    const {name = '', namespace} = (metadata ?? {}) as {readonly name?: string; readonly namespace?: string};
    const {rules = []} = (spec ?? {}) as IngressSpec;
    return rules
      .flatMap(({http}) => http?.paths ?? [])
      .flatMap(({backend = {}}) => {
        const serviceName = backend.serviceName ?? backend.service?.name ?? '';
        const asked = backend.servicePort ?? backend.service?.port?.number ?? backend.service?.port?.name;
        const isIt = (each: {readonly name: string}): boolean =>
          each.name === serviceName || each.name === `${namespace ?? ''}/${serviceName}`;
        const written = writtenServices(lines).find(isIt);
        const own = typeof asked === 'number' ? (written ?? listed.find(isIt)) : written;
        const {ports = []} = own ?? {};
        if (own === undefined || ports.length === 0 || asked === undefined || ports.some(({port}) => port === 0)) return [];
        if (ports.some(port => (typeof asked === 'number' ? port.port === asked : port.name === asked || String(port.port) === asked)))
          return [];
        const all = someOf(ports.map(each => `${each.port}${each.name == null ? '' : ` (${each.name})`}`));
        return typeof asked === 'number'
          ? `Ingress ${name} sends to port ${asked} of ${own.name}, which has ${all}: it must name a port of the Service, and not that of the pods (targetPort)`
          : `Ingress ${name} sends to the port "${asked}" of ${own.name}, which has ${all} and none of that name: it must name a port of the Service, by its number or its name`;
      });
  });
}

interface IngressSpec {
  readonly rules?: readonly {readonly http?: {readonly paths?: readonly {readonly backend?: IngressBackend}[]}}[];
}

/** As today, and before 1.19. */
interface IngressBackend {
  readonly service?: {readonly name?: string; readonly port?: {readonly number?: number; readonly name?: string}};
  readonly serviceName?: string;
  readonly servicePort?: number | string;
}

/** Programs that listen at the loopback address alone, at a port that clients or Services of the text ask for. */
export function loopbackListeners(lines: readonly string[], asked: readonly number[]): readonly string[] {
  if (!lines.some(line => line.includes('LISTEN'))) return [];
  const locals = lines.flatMap(line => {
    const [, address = '', port] = (line.includes('LISTEN') ? /(?:^|\s)(\S*):(\d+)(?=\s)/.exec(line) : null) ?? [];
    return port === undefined ? [] : [{address: address.replace(/^\[|\]$/g, ''), port: Number(port)}];
  });
  const wanted = new Set([
    ...asked,
    ...writtenServices(lines).flatMap(({ports}) => ports.flatMap(({targetPort}) => Number(targetPort) || [])),
    ...podsWithLabels(lines).flatMap(({ports = []}) => ports.flatMap(({containerPort}) => containerPort ?? [])),
  ]);
  return [...Map.groupBy(locals, ({port}) => port)].flatMap(([port, all]) =>
    wanted.has(port) && all.every(({address}) => /^(?:127\.|::1$|localhost$)/.test(address))
      ? `a program listens on port ${port} of ${all[0]?.address} alone: it gets nothing that is sent to the address of its pod or node, and such connections are refused. It must listen at 0.0.0.0 (or ::)`
      : [],
  );
}

/** Names without a namespace that are not found, where the text has the Service in a namespace, and others. */
export function namesElsewhere(
  lines: readonly string[],
  {services: listed, headless}: Pick<Listed, 'services' | 'headless'>,
): readonly string[] {
  const asked = new Map(
    lines.flatMap(line => {
      const [, host, of = ''] = ofNames.test(line) ? (unresolved.exec(line) ?? []) : [];
      return host === undefined ? [] : [[host, of] as const];
    }),
  );
  if (asked.size === 0) return [];
  const spaces = new Set(lines.flatMap(line => /(?:^\s*namespace: | -n[ =]| --namespace[ =])([a-z][a-z0-9-]*)/.exec(line)?.[1] ?? []));
  const names = ['default/kubernetes', ...headless, ...[...writtenServices(lines), ...listed].map(({name}) => name)];
  const isOfNode = (host: string): boolean => lines.some(line => line.trimStart().startsWith(`${host} `));
  return [...asked].flatMap(([host, of]) => {
    const has = (name: string): boolean => name === host || name === `${of}/${host}`;
    const inIt = listed.filter(({name}) => name.startsWith(`${of}/`) || (spaces.size === 1 && spaces.has(of)));
    if (of !== '')
      return inIt.length === 0 || names.some(has)
        ? []
        : `a client asks for the name ${host}.${of}, and kubectl lists no such Service in namespace ${of} (${someOf(inIt.map(({name}) => name))})`;
    const homes = new Set(names.flatMap(name => (name.endsWith(`/${host}`) ? name.slice(0, -host.length - 1) : [])));
    const [home, ...others] = homes;
    // Pods of the namespace of a list know its Services by their names.
    if (listed.length > 0 && !isOfNode(host) && names.every(name => name !== host && !name.endsWith(`/${host}`)))
      return `a client asks for the name ${host}, and kubectl lists no such Service (${someOf([...listed.map(({name}) => name), ...headless])})`;
    if (home === undefined || others.length > 0 || ![...spaces].some(space => space !== home)) return [];
    return `${host} is a Service of namespace ${home}: pods of other namespaces know it as ${host}.${home} alone`;
  });
}

/** A name without a domain, or with a namespace, as it is in the cluster. */
const unresolved =
  /(?:resolve(?: host)?:?|bad address|lookup|server host|host name) ['"]?(?!host:)([a-z][a-z0-9-]*)(?:\.([a-z][a-z0-9-]*)(?:\.svc(?:\.cluster\.local\.?)?)?)?['"]?(?=[\s;:)]|$)/;

/** What the NetworkPolicies of a text keep out, where it complains or has a Service to which that happens. */
export function policiesSay(lines: readonly string[], listed: readonly ListedService[]): readonly string[] {
  if (!lines.some(line => /NetworkPolicy|(?:namespace|pod)Selector:|^\s*- (?:from|to):/.test(line))) return [];
  const policies = fromObjects(lines, ({kind, metadata, spec}) => {
    const {name = '', namespace = ''} = (metadata ?? {}) as {readonly name?: string; readonly namespace?: string};
    return kind === 'NetworkPolicy' ? {name: name === '' ? 'of this text' : name, namespace, ...(spec as PolicySpec)} : [];
  });
  const complains = lines.some(line => complaint.test(line));
  const said = [
    ...madeOf(policies, policy => otherPorts(policy, policies, lines, listed)),
    ...(lines.some(line => ofNames.test(line)) ? madeOf(policies, policy => withoutDns(policy, policies)) : []),
    ...(complains ? madeOf(policies, policy => closed(policy, policies, namespacesIn(lines))) : []),
  ];
  return complains ? [...said, ...(said.some(text => text.includes(' admits port ')) ? [] : madeOf(policies, ofPorts))] : said;
}

const complaint =
  /\b(?:504|[Tt]imed? ?out|[Tt]imeout|deadline exceeded|block(?:s|ed|ing)?|unreachable|inaccessible|denied|unable to|fails?|failed|refused)\b|\bcan(?:no|')t\b|\bcan not\b|n't work|\bnot work/;
export const ofNames =
  /can't resolve|NXDOMAIN|can't find|no such host|bad address|ould not resolve|no servers could be reached|name resolution|[Uu]nknown (?:\w+ server )?host|translate host name|not (?:be able to )?resolve|unable to (?:\w+ )?(?:resolve|lookup)|\bDNS\b.*\b(?:fail|time|block)/;

interface PolicySpec {
  readonly podSelector?: {readonly matchLabels?: Readonly<Record<string, string>> | null; readonly matchExpressions?: unknown} | null;
  readonly policyTypes?: readonly string[];
  readonly ingress?: readonly PolicyRule[] | null;
  readonly egress?: readonly PolicyRule[] | null;
}

interface PolicyRule {
  readonly from?: readonly PolicyPeer[] | null;
  readonly to?: readonly PolicyPeer[] | null;
  readonly ports?: readonly {readonly port?: number | string}[] | null;
}

interface PolicyPeer {
  readonly podSelector?: {readonly matchLabels?: Readonly<Record<string, string>>};
  readonly namespaceSelector?: {readonly matchLabels?: Readonly<Record<string, string>>};
  readonly ipBlock?: {readonly cidr?: string};
}

interface Namespace {
  readonly name: string;
  readonly labels: readonly string[];
}

/** Those that a text has with their labels. */
function namespacesIn(lines: readonly string[]): readonly Namespace[] {
  return [
    ...fromObjects(lines, ({kind, metadata}) => {
      const {name = '', labels} = (metadata ?? {}) as NonNullable<PodObject['metadata']>;
      return kind === 'Namespace' ? {name, labels: pairsOf(labels)} : [];
    }),
    ...lines.flatMap(line => {
      const [, name, labels = ''] = /^\s*(?:namespace\/)?([a-z0-9-]+)\s+Active\s+\d\w*\s+(\S+)\s*$/.exec(line) ?? [];
      return name === undefined ? [] : {name, labels: labels.split(',').filter(label => label.includes('='))};
    }),
  ];
}

interface Policy extends PolicySpec {
  readonly name: string;
  readonly namespace: string;
}

/** Policies that admit ports of a Service, or others, and not those at which its pods are asked. */
function otherPorts(policy: Policy, all: readonly Policy[], lines: readonly string[], listed: readonly ListedService[]): readonly string[] {
  const {name, namespace, podSelector, ingress} = policy;
  const admitted = (ingress ?? []).flatMap(({ports}) => (ports ?? []).flatMap(({port}) => port ?? []));
  const isOpen = ({ingress: rules}: Policy): boolean => (rules ?? []).some(({ports}) => (ports ?? []).length === 0);
  if (admitted.length === 0 || all.some(isOpen) || podSelector?.matchExpressions !== undefined) return [];
  const labels = pairsOf(podSelector?.matchLabels);
  const others = all.flatMap(each => (each.ingress ?? []).flatMap(({ports}) => (ports ?? []).flatMap(({port}) => port ?? [])));
  const written = writtenServices(lines).filter(
    service =>
      labels.every(label => service.wanted.includes(label)) &&
      (namespace === '' || service.namespace === '' || service.namespace === namespace),
  );
  const ofNodes = [...written, ...listed].flatMap(({name: own, ports}) =>
    ports.flatMap(({nodePort}) =>
      nodePort != null && admitted.includes(nodePort) ? `port ${nodePort}, which is the node port of ${own}` : [],
    ),
  );
  const ofPods = written.flatMap(({name: own, ports}) => {
    const targets = ports.flatMap(({targetPort}) => targetPort ?? []);
    const isKnown = targets.length > 0 && [...targets, ...others].every(port => typeof port === 'number');
    if (!isKnown || targets.some(port => others.includes(port))) return [];
    const which = ports.find(({port}) => admitted.includes(port));
    return `port ${someOf(admitted.map(String))}${which === undefined ? '' : `, which is the port of ${own},`} and not ${someOf(targets.map(String))}, to which ${own} sends`;
  });
  return [...ofNodes, ...ofPods]
    .slice(0, 1)
    .map(what => `NetworkPolicy ${name} admits ${what}: it counts at the pod, where packets come to the target port`);
}

/** What the ports of a policy are. */
function ofPorts({name, ingress, egress}: Policy): readonly string[] {
  const ports = [...(ingress ?? []), ...(egress ?? [])].flatMap(rule =>
    (rule.ports ?? []).flatMap(({port}) => (port === undefined || port === 53 ? [] : String(port))),
  );
  if (ports.length === 0) return [];
  return [
    `NetworkPolicy ${name} admits port ${someOf([...new Set(ports)])}: it counts at the pod that is asked, at its target port, and not at the port of a Service`,
  ];
}

/** Policies that let pods send elsewhere, and send no requests to DNS. */
function withoutDns({name, egress, policyTypes}: Policy, all: readonly Policy[]): readonly string[] {
  const mayAsk = ({to, ports}: PolicyRule): boolean =>
    (ports ?? []).length === 0
      ? (to ?? []).length === 0 ||
        to?.some(({namespaceSelector, ipBlock}) => namespaceSelector !== undefined || ipBlock?.cidr?.endsWith('/0')) === true
      : ports?.some(({port}) => port === 53 || typeof port === 'string') === true;
  const isClosing = (egress ?? []).length > 0 || policyTypes?.includes('Egress') === true;
  if (!isClosing || (egress ?? []).length === 0 || all.some(each => (each.egress ?? []).some(mayAsk))) return [];
  return [
    `NetworkPolicy ${name} lets the pods that it selects send no requests to DNS (egress to port 53, UDP and TCP): they know no Service by its name`,
  ];
}

/** Policies that let nothing pass, where the text has none that lets something pass, and pods that a policy admits from its own namespace alone. */
function closed(
  {name, namespace, podSelector, policyTypes = ['Ingress'], ingress}: Policy,
  all: readonly Policy[],
  namespaces: readonly Namespace[],
): readonly string[] {
  if (all.every(each => (each.ingress ?? []).length === 0 && (each.egress ?? []).length === 0)) {
    const ways = policyTypes.map(type => (type === 'Egress' ? 'out of' : 'into')).join(' and ');
    const whom = Object.keys(podSelector ?? {}).length === 0 ? 'the pods of its namespace' : 'the pods that it selects';
    return [
      `NetworkPolicy ${name} lets nothing ${ways} ${whom}${policyTypes.includes('Egress') ? ' (no requests to DNS either)' : ''}, unless another policy does: the network plugin drops the packets, whatever the rules of kube-proxy`,
    ];
  }
  const peers = (ingress ?? []).flatMap(({from}) => from ?? []);
  const isOfPods = peers.length > 0 && (ingress ?? []).every(({from}) => from?.every(({ipBlock}) => ipBlock === undefined) === true);
  const near = peers.flatMap(peer => (peer.namespaceSelector === undefined ? pairsOf(peer.podSelector?.matchLabels) : []));
  const wanted = peers.flatMap(peer => {
    const labels = pairsOf(peer.namespaceSelector?.matchLabels).filter(label => !label.startsWith('kubernetes.io/metadata.name='));
    return labels.length === 0 || namespaces.some(({labels: own}) => labels.every(label => own.includes(label))) ? [] : [labels.join()];
  });
  const [{name: other = '', labels: others = []} = {}] = namespaces;
  const own = namespaces.length === 0 ? '' : `, and ${other} has ${others.length === 0 ? 'none' : others.join(', ')}`;
  return [
    wanted.length > 0
      ? `NetworkPolicy ${name} admits namespaces with ${someOf(wanted)}${own}: a namespace has the label kubernetes.io/metadata.name, and others only where somebody gave them to it (kubectl get ns --show-labels)`
      : [],
    near.length > 0
      ? `NetworkPolicy ${name} admits pods with ${near.join(', ')} of ${namespace === '' ? 'its own namespace' : `namespace ${namespace}, its own,`} alone: a podSelector without a namespaceSelector in the same entry of "from" selects no pod of another namespace, such as that of an ingress controller`
      : [],
    isOfPods
      ? `NetworkPolicy ${name} admits pods alone: a client outside of the cluster, the API server and programs in the network of their host are none, and need an ipBlock`
      : [],
  ].flat();
}
