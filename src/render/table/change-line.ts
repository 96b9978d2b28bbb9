import type {Finding} from '../../model/finding.ts';
import {escapeText} from '../escape.ts';
import {bySeverity, type Style} from '../style.ts';

/** A new or resolved finding in one line: `new ST202 node-a shop/web:http: endpoint …`. */
export function changeText(kind: 'came' | 'went', {code, severity, node, message, known}: Finding, style: Style): string {
  const color = kind === 'went' ? style.green : bySeverity(style, severity);
  return `${color(`${kind === 'came' ? 'new' : 'resolved'} ${code}`)}${known ? ' (known)' : ''} ${escapeText(node ?? '-')} ${escapeText(message)}`;
}
