import {once} from '../../model/once.ts';
import {attempt, type Fields, isObject} from '../attempt.ts';
import {readYaml} from '../yaml-text.ts';

/** What is made of the objects that a text has as YAML or JSON. Their fields may hold anything: one of which nothing can be made is left out. */
export function fromObjects<T>(lines: readonly string[], make: (object: Fields) => T | readonly T[]): readonly T[] {
  return madeOf(objectsIn(lines), make);
}

/** The same of what was made of objects. */
export function madeOf<T, U>(all: readonly T[], make: (one: T) => U | readonly U[]): readonly U[] {
  return all.flatMap(one => {
    const made = attempt(() => make(one));
    return made instanceof Error ? [] : made;
  });
}

/**
 * Objects of the API that stand in a text as YAML or JSON, and parts of such, whose kind is that of their fields. What cannot be read tells
 * nothing.
 */
const objectsIn = once((lines: readonly string[]): readonly Fields[] => {
  const objects: Fields[] = [];
  const take = (value: unknown): void => {
    if (!isObject(value)) return;
    if (Array.isArray(value['items'])) value['items'].forEach(take);
    else objects.push(typeof value['kind'] === 'string' ? value : ofPart(value));
  };
  for (let at = 0; at < lines.length; at++) {
    const [, margin, first, part] = beginning.exec(lines[at] ?? '') ?? [];
    if (margin === undefined) {
      const [labelled, end] = namedLabels(lines, at);
      objects.push(...labelled);
      at = Math.max(at, end - 1);
      continue;
    }
    if (first === undefined && part === undefined && margin !== '') continue;
    const own = [(lines[at] ?? '').slice(margin.length)];
    let end = at + 1;
    for (; end < lines.length; end++) {
      const line = lines[end] ?? '';
      const text = line.trim() === '' || leftOut.test(line) ? '' : line.slice(margin.length);
      // Programs begin what went wrong with their name.
      const belongs = /^(?!(?:curl|wget|nc|error|warning): )(?:\s|$|- |[\w.-]+:(?: |$)|\}|# )/i.test(text);
      if (!belongs || (text !== '' && !line.startsWith(margin)) || (part !== undefined && /^\w/.test(text) && own.at(-1) === '')) break;
      own.push(text);
    }
    const value = readPart(own.join('\n'));
    if (part === 'labels' && isObject(value)) objects.push(...labelsOf(`${wordsAbove(lines, at)} labels`, value['labels']));
    else [value].flat().forEach(take);
    at = end - 1;
  }
  return objects;
});

/** The first line of an object, and of a part of one. */
const beginning =
  /^(\s*)(?:- )?(?:(apiVersion|kind): |\{\s*$|(metadata|spec|template|selector|labels|matchLabels|ports|containers|ingress|egress|from|to|(?:pod|namespace)Selector):\s*$)/;
/** What people write in place of lines that they leave out. */
const leftOut = /^\s*(?:\.{3,}|…|\[\.{3,}\]|<(?:snip|cut)>)\s*$/;

/** A text may end in the middle of an object: what stands before the line that cannot be read. */
function readPart(given: string): unknown {
  // Charts have names in braces in place of values.
  const text = given.includes('{{')
    ? given.replaceAll(/: +(\{\{.*\}\}) *$/gm, (_, name: string) => `: "${name.replaceAll(/[\s",\\]/g, '')}"`)
    : given;
  const whole = attempt(() => readYaml(text));
  if (!(whole instanceof Error)) return whole;
  const {line = 0} = (whole as Error & {readonly mark?: {readonly line?: number}}).mark ?? {};
  // What is not closed is noticed at the end.
  const before = [line, line - 1].map(end => attempt(() => readYaml(text.split('\n').slice(0, Math.max(0, end)).join('\n'))));
  return before.find(value => !(value instanceof Error));
}

/** The kind of a part, by fields that no other kind has. A selector of plain labels is that of a Service. */
function ofPart(value: Fields): Fields {
  const spec = isObject(value['spec']) ? value['spec'] : value;
  const made = (kind: string, own: Fields): Fields => ({kind, metadata: value['metadata'], spec: own});
  if ('namespaceSelector' in value || ('podSelector' in value && Object.keys(value).length === 1))
    return made('NetworkPolicy', {ingress: [{from: [value]}]});
  // Istio has rules with `from` and `to`, too.
  const isPeer = (peer: unknown): boolean => isObject(peer) && ['podSelector', 'namespaceSelector', 'ipBlock'].some(field => field in peer);
  if ([value['from'] ?? value['to']].flat().some(isPeer)) return made('NetworkPolicy', {['from' in value ? 'ingress' : 'egress']: [value]});
  if ('podSelector' in spec || Array.isArray(spec['ingress']) || Array.isArray(spec['egress'])) return made('NetworkPolicy', spec);
  if (isObject(spec['template'])) return made('Deployment', spec);
  if ('containers' in spec) return made('Pod', spec);
  const ports = Array.isArray(spec['ports']) ? spec['ports'].filter(isObject) : [];
  if ((isLabels(spec['selector']) && !('servers' in spec)) || ports.some(port => 'targetPort' in port || 'nodePort' in port))
    return made('Service', spec);
  if (ports.some(port => 'containerPort' in port)) return made('Pod', {containers: [{ports}]});
  return value;
}

function isLabels(value: unknown): value is Record<string, string> {
  return isObject(value) && Object.values(value).length > 0 && Object.values(value).every(each => typeof each !== 'object');
}

/** Labels without the field that they belong to, which words name: those of a line, or below it. And the first line after them. */
function namedLabels(lines: readonly string[], start: number): readonly [readonly Fields[], number] {
  const line = lines[start] ?? '';
  const within = [...line.matchAll(inWords)].flatMap(({0: words, 1: labels = '', index}) =>
    labelsOf(
      `${line
        .slice(0, index)
        .split(/[.,;] /)
        .at(-1)}${words.split(/[`"']/)[0]}`,
      pairsIn(labels),
    ),
  );
  if (within.length > 0) return [within, start + 1];
  if (printed.test(line)) return [labelsOf(wordsAbove(lines, start), pairsIn(line)), start + 1];
  let end = start;
  while (bareLabel.test(lines[end] ?? '')) end++;
  const above = end === start ? '' : wordsAbove(lines, start);
  return [bareLabel.test(above) ? [] : labelsOf(above, pairsIn(lines.slice(start, end).join('\n'))), end];
}

function wordsAbove(lines: readonly string[], at: number): string {
  return (
    lines
      .slice(Math.max(0, at - maxAbove), at)
      .filter(line => /[a-z]/i.test(line) && !line.trim().startsWith('```'))
      .at(-1) ?? ''
  );
}

/** Lines between words about labels and these. */
const maxAbove = 4;

/** A selector, or the labels of pods: a Service has labels, too. */
function labelsOf(words: string, labels: unknown): readonly Fields[] {
  if (!isLabels(labels)) return [];
  if (/\bselectors?\b/i.test(words)) return [{kind: 'Service', spec: {selector: labels}}];
  const isOfPods = /\b(?:pods?|po|deploy\w*|templates?|rc|rs|sts|\w+sets?|workloads?)\b/i.test(words);
  return isOfPods && /\b(?:labels?|labell?ed|get)\b/i.test(words) ? [{kind: 'Pod', metadata: {labels}}] : [];
}

function pairsIn(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries([...text.matchAll(/([\w./-]+)["']? ?[:=] ?["']?([\w.-]+)/g)].map(([, key = '', value = '']) => [key, value]));
}

const pair = String.raw`[\w./-]+ ?[:=] ?["']?[\w.-]+`;
const inWords = new RegExp(`\\b(?:selectors?|labels?|labell?ed)\\b[^\`"'{}]{0,40}[\`"'](${pair}(?:, ?${pair})*)[\`"']`, 'gi');
/** By a JSON path, and by a template of Go. */
const printed = /^\s*(?:\{"[\w./-]+":"[\w.-]+"(?:,"[\w./-]+":"[\w.-]+")*\}|map\[[\w./-]+:[\w.-]+(?: [\w./-]+:[\w.-]+)*\])\s*$/;
const bareLabel =
  /^\s{2,}((?:[\w.-]+\/)[\w.-]+|app|name|run|tier|component|role|release|instance|k8s-app|environment|env|version): (\S+)\s*$/;

/** The objects that `kubectl describe` prints, each as its fields. Labels are one a line. */
export const describedFields = once((lines: readonly string[]): readonly ReadonlyMap<string, string>[] => {
  const found: Map<string, string>[] = [];
  let last = '';
  for (const text of lines) {
    if (!text.includes(':') && !(last === 'Labels' && text.includes('='))) continue;
    const more = last === 'Labels' ? /^\s+([\w./-]+=\S*)\s*$/.exec(text)?.[1] : undefined;
    const [, field = more === undefined ? '' : last, value = more ?? ''] = describedField.exec(text) ?? [];
    if (field !== '' || /^\s*(?:> )?\w+:/.test(text)) last = field;
    if (field === 'Name') found.push(new Map());
    if (/^Pod Template:\s*$/.test(text))
      found.push(new Map([...[found.at(-1)?.get('Name') ?? []].flat().map(name => ['Name', name] as const), ['Node', '']]));
    // The first of pods is that of the pod, and others are of its containers.
    const fields =
      found.at(-1) ?? (/^(?:(?:NotReady)?Addresses|Endpoints|Selector)$/.test(field) ? found[found.push(new Map()) - 1] : undefined);
    if (field !== '' && value !== '') fields?.set(field, [fields.get(field) ?? [], value].flat().join());
    else if (field === 'Endpoints') fields?.set(field, fields.get(field) ?? '<none>');
  }
  return found;
});

const describedField =
  /^\s*(?:> )?(Name|Namespace|Node|Labels|IP|Port|NodePort|Endpoints|Addresses|NotReadyAddresses|Selector|TargetPort|LoadBalancer Ingress):\s*(.*?)\s*$/;

export function pairsOf(labels: Readonly<Record<string, string>> | null | undefined): readonly string[] {
  return Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`);
}
