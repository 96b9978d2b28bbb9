import {treatAddress} from './treatment.ts';
import type {Replacements} from './replacements.ts';

/** `ipset save`. Types, sizes and timeouts stay. */
export function redactIpset(text: string, replacements: Replacements): string {
  return eachLine(text, line => {
    const [, verb = '', name = '', rest = ''] = /^(create|add) (\S+)(.*)$/s.exec(line.trim()) ?? [];
    if (verb === '') return replacements.words.comment(line);
    const [, before = '', comment] = /^(.*?)( comment ".*"| comment \S+)?$/s.exec(rest) ?? [];
    const said = comment === undefined ? '' : ` comment ${replacements.words.comment(comment.slice(' comment '.length))}`;
    const element = before.replace(
      /^( )(\S+)/,
      (_, space: string, first: string) => space + (verb === 'add' ? member(first, replacements) : first),
    );
    return `${verb} ${replacements.setName(name)}${element}${said}`;
  });
}

/** An element names another set if the set is one of sets. */
function member(text: string, replacements: Replacements): string {
  return /^[A-Za-z][\w-]*$/.test(text) && text.includes('-') ? replacements.setName(text) : replacements.text.replace(text);
}

/** `ipvsadm-save`, `conntrack -L`: keywords, numbers, and addresses. */
export function redactAddresses(text: string, {text: addresses}: Replacements): string {
  return eachLine(text, line => addresses.replace(line));
}

const keptLabels = new Set(
  'ip_family table le quantile code name stage version build_date compiler git_commit git_tree_state git_version go_version major minor platform'.split(
    ' ',
  ),
);

/** Metrics in the text format of Prometheus. */
export function redactMetrics(text: string, replacements: Replacements): string {
  return eachLine(text, line =>
    line.startsWith('#')
      ? ''
      : line.replace(/(\w+)="((?:[^"\\]|\\.)*)"/g, (found, label: string, value: string) =>
          keptLabels.has(label) ? found : `${label}="${treatAddress(value, replacements)}"`,
        ),
  );
}

/** `net.ipv4.ip_forward = 1`. */
export function redactSysctls(text: string): string {
  return text
    .split('\n')
    .filter(line => /^[\w./-]+ ?= ?[-,\d\s]*$/.test(line))
    .map(line => `${line}\n`)
    .join('');
}

/** A file of one word or line, which is kept if it has the expected form. */
export function keepOnly(pattern: RegExp): (text: string) => string {
  return text => (pattern.test(text.trim()) || text.trim() === '' ? text : 'redacted\n');
}

function eachLine(text: string, replace: (line: string) => string): string {
  return text
    .split('\n')
    .map(line => (line === '' ? '' : replace(line)))
    .join('\n');
}
