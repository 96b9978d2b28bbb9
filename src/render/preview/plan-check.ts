import type {ForetoldChange, PlanCheck, PlanNode} from '../../model/preview-result.ts';
import {plural} from '../../model/text.ts';
import {schemaVersion, toJson, toYaml} from '../json.ts';
import {nodeList} from '../finding-blocks.ts';
import {originOf, type RenderOptions} from '../renderer.ts';
import {changeObject, previewTable} from './preview-report.ts';
import {changeItems, outcomesText, type PreviewText} from './preview-text.ts';

/** The output formats of `check --plan`. */
export const planCheckRenderers = {
  table: (check, options) => previewTable(planText(check, options.verbose), options),
  json: (check, options) => toJson(planObject(check, options)),
  yaml: (check, options) => toYaml(planObject(check, options)),
} as const satisfies Readonly<Record<string, (check: PlanCheck, options: RenderOptions) => string>>;

/** 1 if a foretold change did not come or another one did, 3 if a node was not checked, otherwise 0. */
export function planExitCode(check: PlanCheck, failOn: string): number {
  const {verdict, nodesUnread} = summarize(check);
  return verdict === 'differs' && failOn !== 'never' ? 1 : nodesUnread > 0 || verdict === 'incomplete' ? 3 : 0;
}

/** Counts packets, not Services. */
type PlanSummary = ReturnType<typeof summarize>;

function summarize({nodes, foretold, besides}: PlanCheck) {
  const of = (status: ForetoldChange['status']): number => foretold.filter(one => one.status === status).length;
  const nodesOf = (status: PlanNode['status']): number => nodes.filter(one => one.status === status).length;
  const [didNotCome, otherwise] = [of('did-not-come'), of('otherwise')];
  const [nodesSwitched, nodesNotSwitched, nodesUnread] = [nodesOf('switched'), nodesOf('not-switched'), nodesOf('unread')];
  const isOther = didNotCome + otherwise + besides.length > 0;
  return {
    verdict: isOther
      ? 'differs'
      : nodesUnread > 0 || nodes.length === 0
        ? 'incomplete'
        : nodesSwitched === 0
          ? 'not-switched'
          : 'as-planned',
    foretold: foretold.length,
    came: of('came'),
    didNotCome,
    otherwise,
    notCompared: of('not-compared'),
    besides: besides.length,
    nodesSwitched,
    nodesNotSwitched,
    nodesUnread,
  };
}

function planText(check: PlanCheck, verbose: boolean): PreviewText {
  const {nodes, foretold, besides, notChecked} = check;
  const changesOf = (...statuses: readonly ForetoldChange['status'][]) => foretold.filter(({status}) => statuses.includes(status));
  const notSwitched = nodes.filter(({status}) => status === 'not-switched').map(({name}) => name);
  const notes = [
    ...(notSwitched.length === 0 ? [] : [`not switched yet: ${nodeList(notSwitched)}`]),
    ...nodes.flatMap(({name, status, reason}) =>
      reason === undefined ? [] : [`${name}${status === 'unread' ? ' not checked' : ''}: ${reason}`],
    ),
    ...(notChecked === 0 ? [] : [`${plural(notChecked, 'node')} of the plan not chosen`]),
    ...(changesOf('not-compared').length === 0
      ? []
      : ['affinity, and what was undetermined in the plan, is not compared: the first packet of a connection does not show it']),
    'third-party rules are those of now: "diff" of two bundles shows which of them changed',
  ];
  const sections = [
    {title: 'NOT FORETOLD', items: changeItems(besides, verbose)},
    {title: 'FORETOLD, AND DID NOT COME', items: nowItems(changesOf('did-not-come'), verbose)},
    {title: 'CHANGED, BUT NOT AS FORETOLD', items: nowItems(changesOf('otherwise'), verbose)},
    {title: 'CAME AS FORETOLD', items: verbose ? nowItems(changesOf('came'), verbose) : []},
    {title: 'NOTES', items: notes.map(head => ({head, lines: []}))},
  ];
  const summary = summarize(check);
  return {verdict: verdictText(summary), isBad: summary.verdict === 'differs', sections: sections.filter(({items}) => items.length > 0)};
}

/** With what the rules do now. */
function nowItems(all: readonly ForetoldChange[], verbose: boolean): PreviewText['sections'][number]['items'] {
  const nowOf = new Map(all.map(({change, now}) => [change, outcomesText(now)]));
  return changeItems([...nowOf.keys()], verbose, change => [['now', nowOf.get(change) ?? '']]);
}

function verdictText(summary: PlanSummary): string {
  const {verdict, foretold, came, didNotCome, otherwise, notCompared, besides, nodesSwitched, nodesNotSwitched, nodesUnread} = summary;
  const all = nodesSwitched + nodesNotSwitched + nodesUnread;
  const unread = nodesUnread === 0 ? '' : `; ${nodesUnread} of ${plural(all, 'node')} not checked`;
  if (all === 0) return 'INCOMPLETE: no node was checked';
  if (nodesSwitched === 0)
    return `${verdict === 'incomplete' ? 'INCOMPLETE' : 'NOT SWITCHED'}: no node has the settings of the plan yet${unread}`;
  const kinds = [
    [didNotCome, 'did not come'],
    [otherwise, 'came otherwise'],
    [notCompared, 'not compared'],
  ] as const;
  const rest = kinds.filter(([count]) => count > 0).map(([count, name]) => `, ${count} ${name}`);
  const title = {'as-planned': 'AS PLANNED', differs: 'DIFFERS', incomplete: 'INCOMPLETE', 'not-switched': 'NOT SWITCHED'}[verdict];
  const others = besides === 0 ? 'nothing else changed' : `${besides} not foretold`;
  return `${title}: ${nodesSwitched} of ${plural(all, 'node')} switched; ${came} of ${plural(foretold, 'foretold change')} came${rest.join('')}; ${others}${unread}`;
}

function planObject(check: PlanCheck, options: Pick<RenderOptions, 'provenance'>): object {
  const origin = originOf(undefined, options);
  return {
    schemaVersion,
    origin: origin ?? undefined,
    summary: summarize(check),
    nodes: check.nodes,
    foretold: check.foretold.map(({change, status, now}) => ({...changeObject(change), status, now})),
    besides: check.besides.map(changeObject),
  };
}
