import type {PodObject} from '../../model/api-objects.ts';
import {once} from '../../model/once.ts';
import {someOf} from '../../model/text.ts';
import type {Fields} from '../attempt.ts';
import {withoutFrame} from '../iptables/pasted-text.ts';
import {describedFields, fromObjects, pairsOf} from './objects-in-text.ts';

/** A row of `kubectl get pods`. */
interface ListedPod {
  /** Empty where the text does not have it. */
  readonly namespace: string;
  readonly name: string;
  /** Containers that are ready. */
  readonly ready: number;
  readonly isReady: boolean;
  readonly status: string;
  readonly ip: string | null;
  readonly node: string | null;
  /** Those of `--show-labels`, or that the command asked for, which are some of them; null where the text has neither. */
  readonly labels: readonly string[] | null;
  readonly areAsked: boolean;
}

export const podsIn = once((lines: readonly string[]): readonly ListedPod[] => {
  let asked: readonly string[] | null = null;
  return lines.flatMap(raw => {
    if (!/\d\/\d+ +[A-Z]|\bget\b/.test(raw)) return [];
    const line = withoutFrame(raw);
    if (/\bget\b/.test(line))
      asked = /\bpo(?:ds?)?\b.* (?:-l|--selector)[ =]?["']?([\w./-]+=[^\s"'!()]*)/.exec(line)?.[1]?.split(',') ?? null;
    const [, namespace = '', name = '', count, all, status = '', rest = ''] = podRow.exec(line) ?? [];
    if (count === undefined) return [];
    const [, ip = null, node = null] = /(?:^|\s)(\d+\.\d+\.\d+\.\d+)\s+(\S+)/.exec(rest) ?? [];
    const shown = /\s(\S+=\S*)\s*$/.exec(rest)?.[1]?.split(',');
    return {namespace, name, ready: Number(count), isReady: count === all, status, ip, node, labels: shown ?? asked, areAsked: !shown};
  });
});

const podRow = /^\s*(?:([\w-]+)\s+)?(?:po(?:ds?)?\/)?([\w.-]+)\s+(\d+)\/(\d+)\s+([A-Z]\S*)\s+(\d.*)$/;

/** A pod, or what makes pods, with the labels and ports that it gives them. */
interface Labelled {
  readonly what: string;
  /** Empty where the text does not have it. */
  readonly namespace: string;
  readonly labels: readonly string[];
  /** It may have others. */
  readonly areSome?: boolean;
  /** By `kubectl get pods`, which shows whether it is ready. */
  readonly isListed?: true;
  /** `0/1 CrashLoopBackOff` of a pod that is not ready. */
  readonly unready: string | null;
  readonly ports?: readonly DeclaredPort[];
  /** Where programs of its images listen, unless a file, an argument or a variable tells them otherwise. */
  readonly usual?: readonly UsualPort[];
}

interface DeclaredPort {
  readonly name?: string;
  readonly containerPort?: number;
}

export const podsWithLabels = once((lines: readonly string[]): readonly Labelled[] => [
  ...podsIn(lines).flatMap(({name, namespace, labels, isReady, status, areAsked: areSome}) =>
    labels === null ? [] : [{what: name, namespace, labels, areSome, isListed: true as const, unready: isReady ? null : status}],
  ),
  ...describedFields(lines).flatMap(fields =>
    fields.has('Node') && fields.has('Labels')
      ? {
          what: `pod ${fields.get('Name')}`,
          namespace: fields.get('Namespace') ?? '',
          labels: (fields.get('Labels') ?? '').split(','),
          unready: null,
          ports: (fields.get('Port') ?? '')
            .split(/, ?/)
            .flatMap(text => ({containerPort: Number.parseInt(text, 10) || []}).containerPort)
            .map(containerPort => ({containerPort})),
        }
      : [],
  ),
  ...fromObjects(lines, podsOfObject),
]);

function podsOfObject(object: Fields): readonly [] | Labelled {
  const {kind, metadata, spec} = object as Fields & PodTemplate & {readonly spec?: {readonly template?: PodTemplate}};
  const pod: PodTemplate | undefined = kind === 'Pod' ? {metadata, spec} : spec?.template;
  if (typeof kind !== 'string' || pod === undefined) return [];
  const containers = pod.spec?.containers ?? [];
  return {
    what: metadata?.name === undefined ? 'the pod' : `${kind} ${metadata.name}`,
    namespace: metadata?.namespace ?? '',
    labels: pairsOf(pod.metadata?.labels),
    unready: null,
    ports: containers.flatMap(({ports}) => ports ?? []),
    usual: containers.flatMap(each => {
      const port = usualPort(each.image ?? '');
      const isTold = ['args', 'command', 'env', 'envFrom', 'volumeMounts'].some(field => field in each);
      if (port === undefined || isTold) return [];
      return {port, image: each.image ?? '', declared: (each.ports ?? []).flatMap(({containerPort}) => containerPort ?? [])};
    }),
  };
}

interface UsualPort {
  readonly port: number;
  readonly image: string;
  /** Those that its container declares. */
  readonly declared: readonly number[];
}

interface PodTemplate {
  readonly metadata?: PodObject['metadata'] | undefined;
  readonly spec?: {readonly containers?: readonly {readonly image?: string; readonly ports?: readonly DeclaredPort[]}[]} | undefined;
}

/** Where programs of well-known images listen. */
function usualPort(image: string): number | undefined {
  const name = /([\w-]+)(?:[:@]\S*)?$/.exec(image)?.[1] ?? '';
  return {nginx: 80, httpd: 80, redis: 6379, mysql: 3306, mariadb: 3306, postgres: 5432, mongo: 27_017, tomcat: 8080}[name];
}

/**
 * Selectors that no pod of the text has the labels for, or none that is ready; and those of ready pods that are no endpoints. `namedTarget`
 * has the name that a Service without endpoints has as its target port, empty where that is none.
 */
export function unselected(
  lines: readonly string[],
  selectors: readonly (readonly [string, string])[],
  namedTarget: (service: string) => string | undefined,
): readonly string[] {
  const pods = podsWithLabels(lines).filter(({labels}) => labels.length > 0);
  return selectors.flatMap(([name, selector]) => {
    const [own = '', service = own] = name.split('/');
    const namespace = service === own ? '' : own;
    const near = pods.filter(pod => namespace === '' || pod.namespace === '' || pod.namespace === namespace);
    const wanted = selector.split(',');
    if (near.length === 0 || !wanted.every(label => /^[\w./-]+=(?:[\w.-]*|\{\{.*\}\})$/.test(label))) return [];
    // What a chart puts in for names in braces is not known.
    const has = (labels: readonly string[], label: string): boolean =>
      labels.some(own => own === label || (/\{\{/.test(own + label) && own.split('=')[0] === label.split('=')[0]));
    const selected = near.filter(({labels}) => wanted.every(label => has(labels, label)));
    if (selected.length === 0) {
      if (near.some(({areSome}) => areSome === true)) return [];
      const others = near.slice(0, 1).map(({what, labels}) => `${what} has ${labels.join(', ')}`);
      return `no pod of this text has the labels of the selector of ${name} (${selector}): ${others.join()}`;
    }
    if (selected.every(({unready}) => unready !== null))
      return `the pods that the selector of ${name} matches are not ready: ${someOf(selected.map(({what, unready}) => `${what} (${unready})`))}`;
    const [target, ready] = [namedTarget(name), selected.filter(({unready, isListed}) => unready === null && isListed)];
    if (target === undefined || ready.length === 0) return [];
    const why = [
      ...(target === '' ? [] : [`no container of theirs has a port of the name ${target} (targetPort), `]),
      ...(ready.some(pod => pod.namespace === '') ? ['they are in another namespace, '] : []),
      'or kube-controller-manager, which writes EndpointSlices, does not follow',
    ].join('');
    return `pods that the selector of ${name} matches are ready (${someOf(ready.map(({what}) => what))}), and it has no endpoint: ${why}`;
  });
}

/** In the events of `kubectl describe pod`, and in the status of a pod whose containers are ready. */
export function failedProbes(lines: readonly string[]): readonly string[] {
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

/** Endpoints of pods that are not ready, which EndpointSlices have, and which `kubectl describe` of 1.30 and 1.31 takes from these. */
export function unreadyEnds(lines: readonly string[], name: string, ends: readonly string[]): readonly string[] {
  const pods = ends.map(end => podsIn(lines).find(({ip}) => end.replace(/:\d*$/, '') === ip));
  if (!pods.every(pod => pod?.isReady === false)) return [];
  return [
    `the pods of ${name} are not ready (${someOf(pods.map(pod => pod?.name ?? ''))}): EndpointSlices and kubectl describe of 1.30 list them all the same, and kube-proxy sends nothing there (but for publishNotReadyAddresses)`,
  ];
}

/** Ready pods with the name of a Service, none of which is among its endpoints, nor any other pod of the text. */
export function strangeEnds(lines: readonly string[], name: string, ends: readonly string[]): readonly string[] {
  const [namespace = '', service = namespace] = name.split('/');
  const addresses = new Set(ends.map(end => end.replace(/:\d*$/, '')));
  const own = podsIn(lines).filter(
    pod => pod.isReady && pod.ip !== null && pod.name.startsWith(`${service}-`) && [namespace, service, ''].includes(pod.namespace),
  );
  if (own.length === 0 || podsIn(lines).some(({ip}) => addresses.has(ip ?? ''))) return [];
  return [
    `kubectl lists ready pods ${someOf(own.map(pod => `${pod.name} (${pod.ip})`))}, and the endpoints of ${name} are of no pod that it lists (${someOf([...addresses])}): kube-controller-manager, which writes EndpointSlices, does not follow, one list is older, or the selector is of other pods`,
  ];
}

/** Pods of a text that has a Service without endpoints, and none of their labels. */
export function unreadyPods(lines: readonly string[]): readonly string[] {
  const own = podsIn(lines).filter(({isReady, status, labels}) => !isReady && labels === null && status !== 'Completed');
  if (own.length === 0) return [];
  return [`a pod that is not ready is no endpoint of its Services: ${someOf(own.map(({name, status}) => `${name} (${status})`))}`];
}
