import {entryText} from '../model/entry.ts';
import type {Rule} from '../model/ruleset.ts';
import type {EndpointTrace, EntryTrace, Mark, PortTrace} from '../model/service-trace.ts';
import {escapeText} from './escape.ts';
import {findingText, nodeList} from './finding-text.ts';
import {groupFindings} from './group-findings.ts';
import type {Report} from '../model/report.ts';
import type {Renderer} from './renderer.ts';
import {type Style, styleOf} from './style.ts';
import {verdictLine} from './verdict-line.ts';

/** For every port the way of its packets, from entry to pod; nodes on which it is the same are shown once. */
export const tree: Renderer = (report, options) => {
  const style = styleOf(options.color);
  const loud = options.verbose ? report.findings : report.findings.filter(({severity}) => severity !== 'info' || isAnswer(report));
  const trees = options.quiet ? [] : portsOf(report).map(traces => portTree(traces, style));
  return [
    verdictLine(report, style),
    ...trees,
    ...unread(report, style),
    ...groupFindings(loud).map(group => findingText(group, style, options.width)),
  ].join('\n\n');
};

/** Without a single trace, an info is the answer: the Service is not kube-proxy's. */
function isAnswer({traces}: Report): boolean {
  return traces.length === 0;
}

function unread({nodes}: Report, style: Style): readonly string[] {
  return nodes
    .filter(({status}) => status !== 'checked')
    .map(({name, reason}) => style.yellow(`${escapeText(name)}: not looked at: ${escapeText(reason ?? '')}`));
}

function portsOf({traces}: Report): readonly (readonly PortTrace[])[] {
  const ports = new Map<string, PortTrace[]>();
  for (const trace of traces) {
    const key = `${trace.service.namespace}/${trace.service.name} ${trace.port.name} ${trace.port.protocol} ${trace.port.port}`;
    ports.set(key, [...(ports.get(key) ?? []), trace]);
  }
  return [...ports.values()];
}

function portTree(traces: readonly PortTrace[], style: Style): string {
  const [first] = traces;
  if (first === undefined) return '';
  const {service, port} = first;
  const title = `${service.namespace}/${service.name}${port.name === '' ? '' : `:${port.name}`}`;
  const groups = groupNodes(traces);
  const lines = [`${style.bold(escapeText(title))}  port ${port.port}/${port.protocol}`];
  for (const [index, group] of groups.entries()) lines.push(...nodeTree(group, index === groups.length - 1, style));
  return lines.join('\n');
}

/** Nodes whose traces differ in nothing but line numbers. */
function groupNodes(traces: readonly PortTrace[]): readonly (readonly PortTrace[])[] {
  const groups = new Map<string, PortTrace[]>();
  for (const trace of traces) {
    const key = JSON.stringify([trace.family, trace.entries], (name, value: unknown) => (name === 'line' ? undefined : value));
    groups.set(key, [...(groups.get(key) ?? []), trace]);
  }
  return [...groups.values()];
}

function nodeTree(group: readonly PortTrace[], last: boolean, style: Style): readonly string[] {
  const [first] = group;
  if (first === undefined) return [];
  const [branch, stem] = last ? ['└─ ', '   '] : ['├─ ', '│  '];
  const lines = group.length > 1 ? style.dim(` (line numbers of ${escapeText(first.node)})`) : '';
  const title = `${branch}${nodeList(group.map(({node}) => node))}${first.family === 'IPv6' ? ' IPv6' : ''}${lines}`;
  return [
    title,
    ...first.entries.flatMap((entry, index) => entryTree(entry, index === first.entries.length - 1, style).map(line => stem + line)),
  ];
}

function entryTree(trace: EntryTrace, last: boolean, style: Style): readonly string[] {
  const {entry, from, steps, endpoints, end, mark} = trace;
  const [branch, stem] = last ? ['└─ ', '   '] : ['├─ ', '│  '];
  const way = steps.map(step => ` → ${step.target?.name ?? ''}${lineOf(step, style)}`).join('');
  const head = `${branch}${entryText(entry)}${style.dim(` from ${from}`)}${way}${mark === 'missing' ? ` ${style.red('✗ leads to no endpoint')}` : ''}`;
  const leaves = [...endpoints.map(endpoint => endpointLine(endpoint, style)), ...endLine(end, mark, style)];
  return [head, ...leaves.map((leaf, index) => `${stem}${index === leaves.length - 1 ? '└─ ' : '├─ '}${leaf}`)];
}

function endpointLine({hostPort, mark, share, masquerade, pod, nodeName, state, rewrite}: EndpointTrace, style: Style): string {
  const owner =
    state === null
      ? style.red('no endpoint of the Service')
      : `${escapeText(pod ?? 'no pod')}${nodeName === null ? '' : ` on ${escapeText(nodeName)}`}, ${state}`;
  const chain = rewrite === null ? '' : style.dim(`  ${rewrite.chain}`) + lineOf(rewrite, style);
  return `${markText(mark, style)} ${percent(share)} ${hostPort}  ${owner}${masquerade ? ', masqueraded' : ''}${chain}`;
}

function endLine(end: EntryTrace['end'], mark: Mark, style: Style): readonly string[] {
  if (end === null || (end.verdict === 'passed' && mark === 'ok')) return [];
  const words = {
    rejected: 'refused (REJECT)',
    dropped: 'dropped (DROP)',
    undecided: `cannot be told: ${end.reason ?? ''}`,
    passed: 'not rewritten: no rule takes it',
  };
  const where = end.rule === null ? '' : style.dim(`  ${end.rule.table}/${end.rule.chain}`) + lineOf(end.rule, style);
  return [`${markText(mark === 'missing' ? 'wrong' : mark, style)} ${escapeText(words[end.verdict])}${where}`];
}

function markText(mark: Mark, style: Style): string {
  if (mark === 'ok') return style.green('✓');
  return style.red(`✗ ${mark}`);
}

function lineOf({line}: Rule, style: Style): string {
  return line > 0 ? style.dim(`:${line}`) : '';
}

function percent(share: number): string {
  return `${(Math.round(share * 1000) / 10).toString().padStart(5)} %`;
}
