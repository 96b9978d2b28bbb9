import {type Fields, isObject, readJson} from './attempt.ts';
import {isText} from './check-report.ts';
import type {PreviewChange, PreviewPlan} from '../model/preview.ts';

/** The plan that `preview -o json` wrote; the reason as text if the file is no such plan. */
export function parsePreviewPlan(text: string): PreviewPlan | {readonly whyNot: string} {
  const plan = readJson(text.replace(/^\ufeff/, ''));
  if (plan === undefined) return {whyNot: text.trim() === '' ? 'it is empty' : 'it is not JSON, or it is truncated'};
  if (!isObject(plan) || !Array.isArray(plan['changes']) || !Array.isArray(plan['requirements']))
    return {whyNot: 'it is no report of preview -o json'};
  if (plan['schemaVersion'] !== 1) return {whyNot: `its schemaVersion is ${JSON.stringify(plan['schemaVersion'])}, and 1 can be read`};
  const {changes, settings, scope, nodes} = plan;
  if (!isList(settings, isSettings) || !isList(scope, isText)) return {whyNot: 'it has no settings of nodes: an older svc-trace wrote it'};
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

function isChange(value: unknown): boolean {
  if (!isObject(value)) return false;
  const {node, service, port, entry, source, packet, before, after, effect, reason, remedy, docs} = value;
  return (
    [node, effect, reason, remedy, docs].every(isText) &&
    isObject(service) &&
    [service['namespace'], service['name']].every(isText) &&
    isObject(port) &&
    [port['name'], port['protocol']].every(isText) &&
    isNumber(port['port']) &&
    isObject(entry) &&
    isText(entry['kind']) &&
    isNumber(entry['port']) &&
    isObject(source) &&
    [source['kind'], source['address']].every(isText) &&
    isObject(packet) &&
    (packet['family'] === 'IPv4' || packet['family'] === 'IPv6') &&
    [packet['source'], packet['destination'], packet['protocol']].every(isText) &&
    isNumber(packet['port']) &&
    isList(before, isOutcome) &&
    isList(after, isOutcome)
  );
}

function isOutcome(value: unknown): value is Fields {
  return (
    isObject(value) &&
    isText(value['verdict']) &&
    isNumber(value['probability']) &&
    (value['destination'] === null || isText(value['destination']))
  );
}

function isSettings(value: unknown): value is Fields {
  return isObject(value) && isList(value['nodes'], isText) && isObject(value['before']) && isObject(value['after']);
}

function isList<T>(value: unknown, isItem: (item: unknown) => item is T): value is readonly T[] {
  return Array.isArray(value) && value.every(isItem);
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number';
}
