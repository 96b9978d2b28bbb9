import {canonicalAddress, parseCidr} from '../../model/address.ts';
import type {Match, Rule, RuleOption, Target} from '../../model/ruleset.ts';

/**
 * The rule in canonical form: two rules that do the same have equal texts, whichever version of iptables printed them. Without comments,
 * `nfacct` counters and `--random-fully`, with addresses in canonical form, marks as value and mask, probabilities rounded.
 */
export function comparableRule(rule: Rule): string {
  const parts = rule.options
    .map(comparableOption)
    .filter(part => part !== '')
    .sort();
  for (const match of rule.matches) {
    const part = comparableMatch(match);
    if (part !== '') parts.push(part);
  }
  if (rule.target !== null) parts.push(comparableTarget(rule.target));
  return parts.join(' ');
}

function comparableOption(option: RuleOption): string {
  const value = option.values.join(' ');
  const not = option.negated ? '! ' : '';
  if (option.flag !== '-s' && option.flag !== '-d') return `${not}${option.flag} ${value}`;
  const cidr = parseCidr(value);
  if (cidr?.prefix === 0 && !option.negated) return '';
  return `${not}${option.flag} ${cidr?.text ?? value}`;
}

function comparableMatch(match: Match): string {
  if (match.name === 'comment' || match.name === 'nfacct') return '';
  if (match.name === 'statistic')
    return `-m statistic ${match.options.map(option => (option.flag === '--probability' ? comparableProbability(option.values[0]) : print(option))).join(' ')}`;
  if (match.name === 'mark') return `-m mark ${match.options.map(comparableMark).join(' ')}`;
  const options = match.options.filter(option => !defaultsOfRecent.has(option.flag)).map(print);
  return `-m ${match.name} ${match.name === 'recent' ? options.sort().join(' ') : options.join(' ')}`;
}

const defaultsOfRecent = new Set(['--mask', '--rsource']);

function comparableMark(option: RuleOption): string {
  const [value = '', mask = '0xffffffff'] = (option.values[0] ?? '').split('/');
  return `${option.negated ? '! ' : ''}${option.flag} ${Number(value)}/${Number(mask)}`;
}

function comparableTarget(target: Target): string {
  const options = target.options.filter(option => option.flag !== '--random-fully');
  const jump = target.goto ? '-g' : '-j';
  if (target.name === 'MARK') return `${jump} MARK ${markChange(options)}`;
  if (target.name === 'REJECT') return `${jump} REJECT ${options[0]?.values[0] ?? ''}`.trimEnd();
  if (target.name === 'DNAT') return `${jump} DNAT ${options.map(comparableDestination).join(' ')}`;
  return [jump, target.name, ...options.map(print)].join(' ');
}

function comparableDestination(option: RuleOption): string {
  if (option.flag !== '--to-destination') return print(option);
  const {address, port} = splitHostPort(option.values.join(' '));
  return `${canonicalAddress(address) ?? address}:${port}`;
}

/** `--set-xmark v/m`, and the forms that older tools print: `--set-mark`, `--or-mark`, `--and-mark`, `--xor-mark`. */
export function markChange(options: readonly RuleOption[]): string {
  const option = options[0];
  const [value = '0', mask] = (option?.values[0] ?? '').split('/');
  const number = Number(value);
  if (option?.flag === '--set-xmark') return `${number}/${mask === undefined ? 0xffffffff : Number(mask)}`;
  if (option?.flag === '--set-mark') return `${number}/${mask === undefined ? 0xffffffff : (Number(mask) | number) >>> 0}`;
  if (option?.flag === '--or-mark') return `${number}/${number}`;
  if (option?.flag === '--xor-mark') return `${number}/0`;
  if (option?.flag === '--and-mark') return `0/${~number >>> 0}`;
  return options.map(print).join(' ');
}

/** `10.0.0.1:80` or `[fd00::1]:80`; the port is empty if there is none. */
export function splitHostPort(text: string): {readonly address: string; readonly port: string} {
  const bracketed = /^\[([^\]]*)\](?::(.*))?$/.exec(text);
  if (bracketed !== null) return {address: bracketed[1] ?? '', port: bracketed[2] ?? ''};
  const colon = text.lastIndexOf(':');
  if (colon < 0 || text.indexOf(':') !== colon) return {address: text, port: ''};
  return {address: text.slice(0, colon), port: text.slice(colon + 1)};
}

function print(option: RuleOption): string {
  return `${option.negated ? '! ' : ''}${option.flag} ${option.values.join(' ')}`;
}

/** Tools differ in the last decimals, and versions before 1.17 wrote five. */
export function comparableProbability(value: string | undefined): string {
  return `--probability ${Number(value).toFixed(5)}`;
}

/** Targets that do not change the path of a packet. */
export const targetsWithoutEffect: ReadonlySet<string> = new Set(
  'LOG NFLOG ULOG AUDIT TRACE TCPMSS TOS DSCP CLASSIFY SET CHECKSUM SECMARK CONNSECMARK LED IDLETIMER RATEEST ECN TEE TCPOPTSTRIP'.split(
    ' ',
  ),
);
