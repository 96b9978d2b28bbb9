import type {Rule, RuleOption} from '../../model/ruleset.ts';

/** The rule as iptables-save prints it, with single spaces: the original prints two after `--nfacct-name`. */
export function formatRule(rule: Rule): string {
  const parts = ['-A', rule.chain, ...rule.options.flatMap(formatOption)];
  for (const match of rule.matches) parts.push('-m', match.name, ...match.options.flatMap(formatOption));
  if (rule.target !== null) parts.push(rule.target.goto ? '-g' : '-j', rule.target.name, ...rule.target.options.flatMap(formatOption));
  return parts.join(' ');
}

function formatOption(option: RuleOption): readonly string[] {
  const values = option.values.map(value => (option.quoted ? quote(value) : value));
  return [...(option.negated ? ['!'] : []), ...(option.flag === '' ? [] : [option.flag]), ...values];
}

/** Follows xtables_save_string of iptables: the same three characters are escaped. */
function quote(value: string): string {
  return `"${value.replace(/["\\']/g, '\\$&')}"`;
}
