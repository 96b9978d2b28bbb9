import {blockSentence, type FindingBlock} from '../finding-blocks.ts';
import {nodeList} from '../names-of-nodes.ts';
import {bySeverity, escapeText, type Style} from '../terminal-text.ts';
import {secondsText} from '../verdict-line.ts';

const words = {came: 'new', went: 'resolved', stood: 'present'} as const;

/** A Service that is new or gone, in one line. */
export function serviceChangeText(kind: 'came' | 'went', service: string): string {
  return `${kind === 'came' ? 'new' : 'deleted'} Service ${escapeText(service)}`;
}

/** A Service that was created and deleted between two checks, in one line. Milliseconds since 1970. */
export function passingServiceText({
  service,
  createdAt,
  deletedAt,
}: {
  readonly service: string;
  readonly createdAt: number;
  readonly deletedAt: number;
}): string {
  return `new and deleted Service ${escapeText(service)} (existed for ${secondsText((deletedAt - createdAt) / 1000)})`;
}

/** A cause that is new, resolved, or was present at the start, in one line: `new ST202 node-a shop/web:http: endpoint …`. */
export function changeText(kind: 'came' | 'went' | 'stood', block: FindingBlock, style: Style): string {
  const {code, severity, known} = block.finding;
  const color = kind === 'went' ? style.green : bySeverity(style, severity);
  const where = block.nodes.length === 0 ? '-' : nodeList(block.nodes);
  return `${color(`${words[kind]} ${code}`)}${known ? ' (known)' : ''} ${where} ${escapeText(blockSentence(block))}`;
}
