import {families} from '../model/address.ts';
import {pathTree} from '../model/path-tree.ts';
import {hasFields, isObject, type NeededFields, readJson} from './attempt.ts';
import {isText} from './check-report.ts';
import type {PreviewChange, PreviewPlan} from '../model/preview-result.ts';

/** The plan that `preview -o json` wrote; the reason as text if the file is no such plan. */
export function parsePreviewPlan(text: string): PreviewPlan | {readonly whyNot: string} {
  const plan = readJson(text.replace(/^\ufeff/, ''));
  if (plan === undefined) return {whyNot: text.trim() === '' ? 'it is empty' : 'it is not JSON, or it is truncated'};
  if (!isObject(plan) || !Array.isArray(plan['changes']) || !Array.isArray(plan['requirements']))
    return {whyNot: 'it is no report of preview -o json'};
  if (plan['schemaVersion'] !== 1) return {whyNot: `its schemaVersion is ${JSON.stringify(plan['schemaVersion'])}, and 1 can be read`};
  const {changes, settings, scope, nodes} = plan;
  if (!hasFields(settings, fieldsOfSettings) || !isList(scope, isText))
    return {whyNot: 'it has no settings of nodes: an older svc-trace wrote it'};
  const packets = changes.filter(change => !isObject(change) || change['topic'] === undefined);
  const odd = packets.findIndex(change => !isChange(change));
  if (odd >= 0) return {whyNot: `change ${odd + 1} in it cannot be read`};
  return {
    settings: settings as PreviewPlan['settings'],
    scope,
    // The only reason of a node whose rules were read.
    withoutAddresses: isList(nodes, isObject)
      ? nodes.flatMap(({name, basis, reason}) => (isText(name) && basis === 'actual' && reason !== undefined ? [name] : []))
      : [],
    changes: (packets as PreviewChange[]).map(asChange),
  };
}

/** The JSON leaves out an address that is null, and has the fields of a cause in the change itself. */
function asChange(change: PreviewChange): PreviewChange {
  const {reason, remedy, docs} = change as PreviewChange & {readonly reason: string; readonly remedy: string; readonly docs: string};
  return {
    ...change,
    entry: {...change.entry, address: change.entry.address ?? null},
    cause: {id: docs.slice(docs.indexOf('#') + 1), reason, remedy},
  };
}

const fieldsOfChange = pathTree<NeededFields>(
  ['string', 'node effect reason remedy docs service.{namespace name} port.{name protocol} entry.kind source.{kind address}'],
  ['string', 'packet.{family source destination protocol} before[].verdict after[].verdict'],
  ['number', 'port.port entry.port packet.port before[].probability after[].probability'],
);

function isChange(value: unknown): boolean {
  if (!hasFields(value, fieldsOfChange)) return false;
  const {packet, before, after} = value as PreviewChange;
  return families.includes(packet.family) && [...before, ...after].every(({destination}) => destination === null || isText(destination));
}

const fieldsOfSettings = pathTree<NeededFields>(['string', '[].nodes[]'], ['object', '[].before [].after']);

function isList<T>(value: unknown, isItem: (item: unknown) => item is T): value is readonly T[] {
  return Array.isArray(value) && value.every(isItem);
}
