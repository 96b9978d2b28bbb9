import type {StrayLine} from '../../model/ruleset.ts';
import {type PastedRule, isStructured} from './pasted-sections.ts';
import type {TableChain} from './section-tables.ts';

/** A chain as the sections of a text show it together. */
export interface MergedChain {
  readonly name: string;
  readonly policy: string | null;
  readonly rules: readonly PastedRule[];
  readonly declared: boolean;
  readonly references: number | null;
  /** A command that lists the whole chain printed it, and nothing is missing. */
  readonly isWhole: boolean;
  /** The text contains rules of the chain that the listing of the whole chain does not. */
  readonly isContradicted: boolean;
  /** Rules that the text contains repeatedly. */
  readonly repeated: readonly StrayLine[];
}

/**
 * The chain that several sections show. Consecutive rules show their order; a repeated rule is one rule. If the rules of a whole chain
 * occur together with others, it is unknown which of them are on the node.
 */
export function mergeChain(name: string, parts: readonly TableChain[]): MergedChain {
  const shown = parts.filter(({chain}) => chain.declared || chain.rules.length > 0);
  const first = shown.find(({section, chain}) => isStructured(section) && chain.rules.length > 0);
  const start = first?.chain.rules ?? [];
  const blocks = shown.filter(part => part !== first).flatMap(({chain}) => blocksOf(chain.rules));
  const {rules, repeated, added} = addBlocks(start, blocks);
  const whole = shown.find(isListedWhole);
  return {
    ...{name, rules, repeated},
    policy: shown.find(({chain}) => chain.policy !== null)?.chain.policy ?? null,
    declared: shown.some(({chain}) => chain.declared),
    references: shown.find(({chain}) => chain.references !== null)?.chain.references ?? null,
    isContradicted: added > 0,
    isWhole: whole !== undefined && added === 0 && (first === undefined || first === whole),
  };
}

function isListedWhole({section: {origin, hasGaps, header, committed}, chain}: TableChain): boolean {
  if (hasGaps || origin.filtered || !chain.declared) return false;
  return header === null ? origin.isCommand : committed;
}

/** Consecutive rules. The longest run shows most of the order. */
function blocksOf(rules: readonly PastedRule[]): readonly (readonly PastedRule[])[] {
  const blocks: PastedRule[][] = [];
  for (const rule of rules) {
    const last = blocks.at(-1);
    if (last?.at(-1)?.line === rule.line - 1) last.push(rule);
    else blocks.push([rule]);
  }
  return blocks;
}

interface Added {
  readonly rules: readonly PastedRule[];
  readonly repeated: readonly StrayLine[];
  readonly added: number;
}

function addBlocks(start: readonly PastedRule[], blocks: readonly (readonly PastedRule[])[]): Added {
  const rules = [...start];
  const texts = new Set(rules.map(textOf));
  const repeated: StrayLine[] = [];
  let added = 0;
  for (const block of blocks.toSorted((a, b) => b.length - a.length)) {
    for (const [at, rule] of block.entries()) {
      if (texts.has(textOf(rule))) {
        repeated.push(rule);
        continue;
      }
      rules.splice(placeFor(rule, block.slice(at + 1), rules), 0, rule);
      texts.add(textOf(rule));
      added++;
    }
  }
  return {rules, repeated, added};
}

/** Before the rule that follows it in the text; kube-proxy writes no rule after one that matches all packets. */
function placeFor(rule: PastedRule, after: readonly PastedRule[], rules: readonly PastedRule[]): number {
  const next = new Set(after.map(textOf));
  const before = rules.findIndex(other => next.has(textOf(other)));
  if (before >= 0) return before;
  const rest = rule.text.includes('--probability')
    ? rules.findIndex(other => !other.text.includes('--probability') && / -j KUBE-SEP-/.test(other.text))
    : -1;
  return rest >= 0 ? rest : rules.length;
}

/** Without counters, and without the comment, which people leave out when they repeat a rule. */
function textOf({text}: PastedRule): string {
  return text
    .replace(/^\[\d+:\d+\] /, '')
    .replace(/ -c \d+ \d+(?= |$)/, '')
    .replace(/ -m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+)/, '');
}
