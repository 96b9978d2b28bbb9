import type {SnapshotRecord} from '../../collect/bundle/snapshot-record.ts';
import type {NameKind} from '../../redact/names.ts';
import type {RedactionSummary} from '../../redact/redaction.ts';
import {escapeText} from '../../render/escape.ts';
import {plural} from '../../model/text/plural.ts';

/** A summary of the written bundle, in a few lines. */
export function captureSummary(path: string, {nodes, problems}: SnapshotRecord, redaction: RedactionSummary | null): string {
  const all = Object.values(nodes);
  const unread = all.filter(({status}) => status === 'unread').length;
  const lines = [
    `${escapeText(path)}: ${plural(all.length, 'node')}${unread === 0 ? '' : `, ${unread} not read`}`,
    ...(unread + problems.length === 0 ? [] : ['snapshot.json lists what could not be read and why']),
    ...(redaction === null ? [] : redactionLines(redaction)),
  ];
  return `${lines.join('\n')}\n`;
}

const kinds: Readonly<Record<NameKind, string>> = {
  namespace: 'namespace',
  service: 'Service',
  pod: 'pod',
  node: 'node',
  word: 'other name',
};

function redactionLines({names, addresses, hardwareAddresses, unknownChains, leftOut}: RedactionSummary): readonly string[] {
  const replaced = [
    ...Object.entries(kinds).map(([kind, word]) => plural(names.get(kind as NameKind) ?? 0, word)),
    plural(addresses, 'public address or network', 'public addresses and networks'),
    plural(hardwareAddresses, 'hardware address', 'hardware addresses'),
  ];
  return [
    `replaced: ${replaced.join(', ')}`,
    ...(unknownChains === 0 ? [] : [`${plural(unknownChains, 'chain')} of unknown Services or endpoints got names of the same form`]),
    ...(leftOut.length === 0 ? [] : [`left out: ${leftOut.map(escapeText).join(', ')}`]),
    'kept: private addresses, names of ports and interfaces, versions, times. Review the bundle before you share it.',
  ];
}
