import type {Report} from '../../model/report.ts';
import {escapeText} from '../escape.ts';
import {nodeList} from '../node-list.ts';
import {groupFindings} from '../group-findings.ts';
import {styleOf} from '../style.ts';
import {verdictLine} from '../verdict-line.ts';

/**
 * The lines above a picture: the verdict, the nodes that were not checked, and the findings. A node whose rules for a Service are right
 * can still lose all of its packets. Control characters are spelled out.
 */
export function pictureHeading(report: Report): readonly string[] {
  const unread = report.basis === 'rules' ? [] : report.nodes.filter(({status}) => status !== 'checked');
  const found = groupFindings(report.findings.filter(({severity}) => severity !== 'info' || report.traces.length === 0));
  return [
    verdictLine(report, styleOf(false)),
    ...unread.slice(0, max).map(({name, reason}) => `? ${name}: ${reason ?? ''}`),
    ...more(unread.length, 'nodes were not checked, or in part'),
    ...found.slice(0, max).map(({finding, nodes}) => {
      const {code, severity, name, message} = finding;
      return `${severity === 'info' ? '' : '✗ '}${code} ${severity} ${name}${nodes.length === 0 ? '' : ` on ${nodeList(nodes)}`}: ${message}`;
    }),
    ...more(found.length, 'findings'),
  ].map(escapeText);
}

const max = 8;

function more(all: number, what: string): readonly string[] {
  return all <= max ? [] : [`and ${all - max} more ${what}`];
}

/** The same for formats that do not wrap text. */
export function shortHeading(report: Report): readonly string[] {
  return pictureHeading(report).map(shorten);
}

function shorten(line: string): string {
  return line.length <= maxLength ? line : `${line.slice(0, maxLength)}…`;
}

const maxLength = 150;
