import type {Finding} from '../../model/finding.ts';
import {escapeText} from '../escape.ts';
import {bySeverity, type Style} from '../style.ts';

/** A finding that came or went, in one line: `came ST202 node-a shop/web:http: endpoint …`. */
export function changeText(kind: 'came' | 'went', {code, severity, node, message, known}: Finding, style: Style): string {
  const colour = kind === 'went' ? style.green : bySeverity(style, severity);
  return `${colour(`${kind} ${code}`)}${known ? ' (known)' : ''} ${escapeText(node ?? '-')} ${escapeText(message)}`;
}
