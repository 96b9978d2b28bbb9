import {type FindingSummary, type Scenario, scenario} from './scenario.ts';

/** A capture of nftables mode in which the ruleset of node-a reads otherwise, as text. `1.36` unless said otherwise. */
export async function nftScenario(change: (ruleset: string) => string = text => text, capture = '1.36'): Promise<Scenario> {
  const whole = await scenario(`nftables/${capture}`);
  const before = whole.rules('node-a', 'nft.txt').toString();
  whole.file('node-a', 'nft.json', null);
  whole.file('node-a', 'nft.txt', change(before));
  return whole;
}

/** Puts one text in the place of another; that there is nothing to replace is a mistake of the test. */
export function replaced(part: string | RegExp, by: string): (ruleset: string) => string {
  return ruleset => {
    const changed = ruleset.replace(part, by);
    if (changed === ruleset) throw new Error(`nothing to replace: ${part}`);
    return changed;
  };
}

/** The rules of a chain replaced by others. */
export function withRules(chain: string, ...rules: readonly string[]): (ruleset: string) => string {
  const body = rules.map(rule => `\t\t${rule}\n`).join('');
  return ruleset => {
    const start = ruleset.indexOf(`\tchain ${chain} {\n`);
    if (start < 0) throw new Error(`there is no chain ${chain}`);
    const first = ruleset.indexOf('\n', start) + 1;
    const end = ruleset.indexOf('\t}', first);
    const hook = /^\t\ttype .*\n/.exec(ruleset.slice(first, end))?.[0] ?? '';
    return ruleset.slice(0, first) + hook + body + ruleset.slice(end);
  };
}

/** What is new, in short: `ST202 error shop/web:http 10.244.11.4:8080`. */
export function shortNews(whole: Scenario): readonly string[] {
  return whole
    .newFindings()
    .filter(({code}) => !code.startsWith('ST1'))
    .map(short);
}

function short({code, severity, family, subject, endpoint, entry}: FindingSummary): string {
  return [code, severity, family === 'IPv6' ? family : '', subject, endpoint ?? entry]
    .filter(text => text !== undefined && text !== '')
    .join(' ');
}
