// `npm run chart -- [FOLDER]` makes the Helm chart (by default into release/chart) from the manifests of deploy/ and what deploy/chart has:
// the objects are those of `kubectl kustomize`, with the values of the chart in place of theirs.
import {execFileSync} from 'node:child_process';
import {cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join, relative, resolve} from 'node:path';
import process from 'node:process';
import {dump, loadAll} from 'js-yaml';
import {type Digests, digestOf, givenDigests} from './release/deploy-files.ts';

/** What a Kustomization puts together of the folders of deploy/. */
export interface Overlay {
  readonly resources: readonly string[];
  readonly components?: readonly string[];
}

export interface ManifestObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {readonly name: string; readonly namespace?: string};
}

const deploy = join(import.meta.dirname, '../deploy');

/** What `kubectl kustomize` makes of it; `SVC_TRACE_KUBECTL` names another kubectl. */
export function kustomize({resources, components = []}: Overlay): readonly ManifestObject[] {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-overlay-'));
  try {
    const place = (path: string) => relative(folder, join(deploy, path));
    const content = {resources: resources.map(place), components: components.map(name => place(`components/${name}`))};
    writeFileSync(join(folder, 'kustomization.yaml'), dump(content));
    const kubectl = process.env['SVC_TRACE_KUBECTL'] ?? 'kubectl';
    return loadAll(execFileSync(kubectl, ['kustomize', folder], {encoding: 'utf8'})) as readonly ManifestObject[];
  } finally {
    rmSync(folder, {recursive: true});
  }
}

/** Writes the chart into a folder that does not exist. `digests` are those of the images, if they are known. */
export function writeChart(folder: string, digests?: Digests): void {
  cpSync(join(deploy, 'chart'), folder, {recursive: true});
  for (const [name, text] of templates()) writeFileSync(join(folder, 'templates', `${name}.yaml`), text);
  cpSync(join(deploy, '../LICENSE'), join(folder, 'LICENSE'));
  if (digests === undefined) return;
  const values = join(folder, 'values.yaml');
  const pinned = readFileSync(values, 'utf8').replace(
    /(repository: ghcr\.io\/svc-trace\/([\w-]+)\n[\s\S]*?digest: )''/g,
    (_, before: string, name: string) => `${before}${digestOf(name, digests)}`,
  );
  writeFileSync(values, pinned);
}

/** The text of each template, by its name. What an overlay has more than another goes into one of its own. */
function templates(): ReadonlyMap<string, string> {
  const base = kustomize({resources: ['namespace']});
  const agents = kustomize({resources: ['agents']});
  const byExec = kustomize({resources: ['cronjob']});
  const more = (components: readonly string[], than: readonly ManifestObject[], resource = 'agents') =>
    without(kustomize({resources: [resource], components}), than);
  const gather = more(['gather'], agents);
  const exec = without(byExec, base);
  const agentReports = more(['gather', 'openreports'], agents);
  const execReports = more(['openreports'], base, 'cronjob');
  const [namespace, ...policies] = base;
  if (namespace === undefined) throw new Error('deploy/namespace has no Namespace');
  const isJob = ({kind}: ManifestObject) => kind === 'CronJob';
  const check = (mode: string, plain: readonly ManifestObject[], reporting: readonly ManifestObject[]) => [
    when(
      `eq .Values.check.mode "${mode}"`,
      plain.filter(object => !isJob(object)),
    ),
    when(`and (eq .Values.check.mode "${mode}") (eq .Values.check.reports "none")`, plain.filter(isJob)),
    when(`and (eq .Values.check.mode "${mode}") (ne .Values.check.reports "none")`, reporting.filter(isJob)),
  ];
  const rights = without(agentReports, gather);
  const policyRights = without(more(['gather', 'policyreport'], agents), gather);
  return new Map([
    ['namespace', `{{- include "svc-trace.validate" . }}\n${when('.Values.namespace.create', [namespace])}`],
    ['network-policy', when('.Values.networkPolicy.enabled', policies)],
    ['agents', when('.Values.agents.enabled', without(agents, base))],
    ['agents-cilium', when('.Values.agents.cilium', more(['cilium'], agents))],
    ['check', [...check('agents', gather, agentReports), ...check('exec', exec, execReports)].join('')],
    ['nodes-proxy', when('.Values.check.nodesProxy', more(['nodes-proxy'], byExec, 'cronjob'))],
    ['reports', when('eq .Values.check.reports "openreports"', rights) + when('eq .Values.check.reports "policyreport"', policyRights)],
    ['prometheus-operator', when('.Values.prometheusOperator.enabled', more(['prometheus-operator'], agents))],
    ['grafana', when('.Values.grafana.enabled', more(['grafana'], agents))],
  ]);
}

function without(objects: readonly ManifestObject[], others: readonly ManifestObject[]): readonly ManifestObject[] {
  const known = new Set(others.map(keyOf));
  return objects.filter(object => !known.has(keyOf(object)));
}

function keyOf({kind, metadata}: ManifestObject): string {
  return `${kind} ${metadata.namespace ?? ''}/${metadata.name}`;
}

function when(condition: string, objects: readonly ManifestObject[]): string {
  const texts = objects.map(object => `---\n${templateText(withValues(object))}`);
  return `{{- if ${condition} }}\n${texts.join('')}{{- end }}\n`;
}

/** An expression of the template in place of a value: in the text it is between these characters. */
const expression = (text: string) => `⟦${text}⟧`;

function templateText(object: unknown): string {
  return dump(object, {lineWidth: -1, noRefs: true})
    .replaceAll('{{', '{{ "{{" }}')
    .replaceAll(/(['"]?)⟦(.*?)⟧\1/g, (_, quote: string, text: string) => `{{ ${quote === "'" ? text.replaceAll("''", "'") : text} }}`);
}

type Fields = Readonly<Record<string, unknown>>;

/** The values of an object of this kind, wherever they are in it, by the value that they replace. */
function withValues(object: ManifestObject): unknown {
  const replaced = replaceIn(object, '') as Fields & ManifestObject;
  if (object.kind === 'Namespace') return namespaceWithValues(replaced);
  return replaced;
}

function namespaceWithValues({metadata, ...object}: ManifestObject): unknown {
  const label = 'pod-security.kubernetes.io/enforce';
  const {labels, ...rest} = metadata as unknown as {readonly labels: Fields};
  const level = expression('ternary "privileged" "restricted" .Values.agents.enabled');
  return {...object, metadata: {...rest, name: expression('.Release.Namespace | quote'), labels: {...labels, [label]: level}}};
}

function replaceIn(value: unknown, key: string): unknown {
  if (Array.isArray(value)) return value.map(item => replaceIn(item, ''));
  if (key === 'namespace' && value === 'svc-trace') return expression('.Release.Namespace | quote');
  if (key === 'schedule') return expression(`.Values.check.schedule | default ${JSON.stringify(value)} | quote`);
  if (key === 'priorityClassName') return expression('.Values.agents.priorityClassName | quote');
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.fromEntries(Object.entries(value).map(([name, field]) => [name, replaceIn(field, name)]));
  return {...fields, ...ownValues(value as Fields)};
}

/** Those of a container, of the pod of agents, and of the quota for their priority. */
function ownValues(fields: Fields): Fields {
  const {name, args = []} = fields as {readonly name?: string; readonly args?: readonly string[]};
  const json = (path: string) => expression(`toJson .Values.${path}`);
  if ('hostNetwork' in fields) return {nodeSelector: json('agents.nodeSelector'), tolerations: json('agents.tolerations')};
  if (fields['scopeName'] === 'PriorityClass') return {values: [expression('.Values.agents.priorityClassName | quote')]};
  if (!('image' in fields)) return {};
  if (name === 'agent') return {image: image('agents'), args: argsWith(args, 'agents'), resources: json('agents.resources')};
  if (name === 'check') return {image: image('check'), args: argsWith(args, 'check'), resources: json('check.resources')};
  if (name === 'apply') return {image: image('check', 'kubectlImage')};
  return name === 'exit-code' ? {image: image('check')} : {};
}

function image(part: string, value = 'image'): string {
  return expression(`include "svc-trace.image" .Values.${part}.${value} | quote`);
}

/** What stands for an argument, by the flag before it or by itself. */
const afterFlag: Readonly<Record<string, string>> = {
  '--interval': '.Values.agents.interval',
  '--node-timeout': '.Values.agents.nodeTimeout',
};
const inPlace: Readonly<Record<string, string>> = {'--output=openreports': '(printf "--output=%s" .Values.check.reports)'};

function argsWith(args: readonly string[], part: 'agents' | 'check'): string {
  const words = args.map((arg, index) => inPlace[arg] ?? afterFlag[args[index - 1] ?? ''] ?? JSON.stringify(arg));
  const lists = [`(list ${words.join(' ')})`, `.Values.${part}.extraArgs`];
  // Agents are looked for in the namespace svc-trace unless another is named.
  if (args.includes('--agents'))
    lists.push('(ternary list (list (printf "--agents-namespace=%s" .Release.Namespace)) (eq .Release.Namespace "svc-trace"))');
  return expression(`toJson (concat ${lists.join(' ')})`);
}

if (process.argv[1] === import.meta.filename) {
  const folder = resolve(process.argv[2] ?? 'release/chart');
  rmSync(folder, {recursive: true, force: true});
  mkdirSync(join(folder, '..'), {recursive: true});
  writeChart(folder, givenDigests());
  process.stdout.write(`${folder}\n`);
}
