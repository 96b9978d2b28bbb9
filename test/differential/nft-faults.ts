import type {Random} from '../bench/random.ts';
import {nftMutations} from '../mutants/nft-mutations.ts';

/** An `nft list ruleset` in which something is wrong with one rule, chain or element, or that a third party added to. */
export function changeNft(ruleset: string, random: Random): string {
  if (random.chance(0.5)) {
    const [first, ...rest] = nftMutations(ruleset);
    return first === undefined ? ruleset : random.pick([first, ...rest]).text;
  }
  return random.pick([ruleInChain, ruleInChain, withoutElement, withoutElement, withoutRules, ownTable])(ruleset, random);
}

/** A rule at the start or the end of one of kube-proxy's chains. */
function ruleInChain(ruleset: string, random: Random): string {
  const lines = ruleset.split('\n');
  const heads = lines.flatMap((line, at) => (line.startsWith('\tchain ') ? [at] : []));
  const at = heads[random.below(Math.max(1, heads.length))];
  if (at === undefined) return ruleset;
  const first = lines[at + 1]?.startsWith('\t\ttype ') ? at + 2 : at + 1;
  const end = lines.indexOf('\t}', at);
  return lines.toSpliced(random.pick([first, end]), 0, `\t\t${ruleOf(ruleset, random)}`).join('\n');
}

function ruleOf(ruleset: string, random: Random): string {
  const addresses = [...ruleset.matchAll(/(?:dnat to |0 : |elements = \{ )(\d+\.\d+\.\d+\.\d+)/g)].map(([, address = '']) => address);
  const address = addresses[random.below(Math.max(1, addresses.length))] ?? '10.244.1.1';
  const chains = [...ruleset.matchAll(/^\tchain (\S+) \{$/gm)].map(([, name = '']) => name);
  const chain = chains[random.below(Math.max(1, chains.length))] ?? 'services';
  const condition = random.pick([
    `ip daddr ${address} `,
    `ip saddr ${address} `,
    'ip saddr 10.244.0.0/16 ',
    'ip daddr != 10.244.0.0/16 ',
    'meta mark & 0x00004000 == 0x00004000 ',
    'ct state new ',
    'iifname "eth0" ',
    'meta l4proto udp ',
    'tcp dport 80 ',
    'numgen random mod 2 == 0 ',
    '',
  ]);
  return condition + random.pick(['accept', 'drop', 'return', 'meta mark set meta mark | 0x00004000', `jump ${chain}`, `goto ${chain}`]);
}

function withoutElement(ruleset: string, random: Random): string {
  const lists = [...ruleset.matchAll(/^\t\telements = \{ (.*) \}$/gm)];
  const list = lists[random.below(Math.max(1, lists.length))];
  if (list === undefined) return ruleset;
  const elements = (list[1] ?? '').split(', ');
  const left = elements.toSpliced(random.below(elements.length), 1);
  const text = left.length === 0 ? '' : `\t\telements = { ${left.join(', ')} }`;
  return ruleset.slice(0, list.index) + text + ruleset.slice(list.index + list[0].length);
}

/** A chain without its rules. */
function withoutRules(ruleset: string, random: Random): string {
  const chains = [...ruleset.matchAll(/^\tchain \S+ \{\n(\t\ttype .*\n)?((?:\t\t.*\n)*)\t\}$/gm)];
  const chain = chains[random.below(Math.max(1, chains.length))];
  if (chain === undefined) return ruleset;
  return ruleset.slice(0, chain.index) + chain[0].replace(chain[2] ?? '', '') + ruleset.slice(chain.index + chain[0].length);
}

/** A table of a third party. */
function ownTable(ruleset: string, random: Random): string {
  const hook = random.pick([
    'type filter hook forward priority 0; policy accept;',
    'type filter hook forward priority 0; policy drop;',
    'type filter hook input priority 0; policy accept;',
    'type filter hook prerouting priority -150; policy accept;',
    'type nat hook prerouting priority -110; policy accept;',
    'type nat hook output priority -110; policy accept;',
    'type nat hook postrouting priority 90; policy accept;',
  ]);
  const rule = ruleOf('', random).replace(/(?:jump|goto) services/, 'accept');
  return `${ruleset}\ntable ip third-party-${random.below(1000)} {\n\tchain own {\n\t\t${hook}\n\t\t${rule}\n\t}\n}\n`;
}
