import type {Advice, Preview, PreviewChange} from '../../model/preview.ts';
import {schemaVersion} from '../json.ts';
import {originOf} from '../provenance-rows.ts';
import type {RenderOptions} from '../renderer.ts';
import {summarizePreview} from './summary.ts';

/** The JSON of `preview`, as docs/preview.schema.json describes it. */
export function previewObject(preview: Preview, options: Pick<RenderOptions, 'provenance'>): object {
  const {before, after, nodes, requirements, changes, advice, notes, settings, scope} = preview;
  const origin = originOf(undefined, options);
  return {
    schemaVersion,
    ...(origin === null ? {} : {origin}),
    ...{before, after},
    summary: summarizePreview(preview),
    nodes,
    requirements,
    changes: [...changes.toSorted(byPlace).map(changeObject), ...advice.map(adviceObject)],
    notes,
    settings,
    scope,
  };
}

export function changeObject({cause, entry, ...change}: PreviewChange): object {
  const {node, service, port, source, packet, before, after, effect} = change;
  return {
    ...{node, service, port},
    entry: {kind: entry.kind, ...(entry.address === null ? {} : {address: entry.address}), port: entry.port},
    ...{source, packet, before, after, effect},
    ...{reason: cause.reason, remedy: cause.remedy, docs: docsOf(cause.id)},
    ...(cause.id === 'healed' ? {healed: true} : {}),
  };
}

/** What is said once, of some nodes or of all. */
function adviceObject({topic, nodes, effect = 'undetermined', reason, remedy, id}: Advice): object {
  return {topic, ...(nodes.length === 0 ? {} : {nodes}), effect, reason, remedy, docs: docsOf(id)};
}

function docsOf(id: string): string {
  return `https://github.com/svc-trace/svc-trace/blob/main/docs/migrating.md#${id}`;
}

function byPlace(a: PreviewChange, b: PreviewChange): number {
  const [left, right] = [keyOf(a), keyOf(b)];
  return left < right ? -1 : left > right ? 1 : 0;
}

function keyOf({node, service, port, entry, packet}: PreviewChange): string {
  return JSON.stringify([service.namespace, service.name, port.name, port.protocol, port.port, node, entry.kind, packet]);
}
