import type {Rule, RuleOption, RuleText} from '../../model/ruleset.ts';

/**
 * Reads one `-A CHAIN …` line as spelled by iptables-save 1.4 to 1.8, `iptables -S` or an input of iptables-restore. Nothing is dropped:
 * unknown matches, targets and options are in the result like all others.
 */
export function parseRule(text: string, place: Omit<RuleText, 'text'>): Rule {
  return {...place, text, ...(knownParts.get(text) ?? newPartsOf(text))};
}

type RuleParts = Pick<Rule, 'options' | 'matches' | 'target'>;

/** Of the first rules: those of base chains are the same on every node, and are parsed on each. */
const knownParts = new Map<string, RuleParts>();
const maxKnown = 1000;

function newPartsOf(text: string): RuleParts {
  if (knownParts.size >= maxKnown) return partsOf(text);
  // A text is a slice of its dump, and would keep all of it in memory.
  const own = Buffer.from(text).toString();
  const parts = partsOf(own);
  knownParts.set(own, parts);
  return parts;
}

function partsOf(text: string): RuleParts {
  const tokens = tokenize(text);
  const sections = new Sections();
  for (let at = 2; at < tokens.length; at++) at = sections.take(tokens, at);
  return sections.result();
}

interface Token {
  readonly text: string;
  readonly quoted: boolean;
}

/** Splits at white space; a part in double quotes is one token, without its backslash escapes. */
function tokenize(text: string): readonly Token[] {
  const tokens: Token[] = [];
  const pattern = /"((?:[^"\\]|\\.)*)"?|[^\s"]\S*/gs;
  for (const found of text.matchAll(pattern)) {
    const inside = found[1];
    tokens.push(inside === undefined ? {text: found[0], quoted: false} : {text: inside.replace(/\\(.)/gs, '$1'), quoted: true});
  }
  return tokens;
}

interface OpenOption {
  flag: string;
  negated: boolean;
  values: string[];
  quoted: boolean;
}

/** Assigns tokens to the parts of a rule: its own options, then matches, then the target. */
class Sections {
  readonly #options: OpenOption[] = [];
  readonly #matches: {name: string; options: OpenOption[]}[] = [];
  #target: {name: string; goto: boolean; options: OpenOption[]} | null = null;
  /** The options of the last match or target. */
  #part: OpenOption[] | null = null;
  #negate = false;

  /** Reads the token at `at`, with its value, and returns the index of the last token used. */
  take(tokens: readonly Token[], at: number): number {
    const token = tokens[at];
    if (token === undefined) return at;
    const flag = token.quoted ? '' : (shortFlag.get(token.text) ?? token.text);
    if (flag === '!') return this.#flip(at);
    // Counters, as `iptables -S -v` prints them: `-c PACKETS BYTES`.
    if (flag === '-c' && isNumber(tokens[at + 1]) && isNumber(tokens[at + 2])) return at + 2;
    const value = tokens[at + 1];
    if (flag === '-m' && value !== undefined) {
      this.#part = [];
      this.#matches.push({name: value.text, options: this.#part});
      return at + 1;
    }
    if ((flag === '-j' || flag === '-g') && value !== undefined) {
      this.#part = [];
      this.#target = {name: value.text, goto: flag === '-g', options: this.#part};
      return at + 1;
    }
    if (ruleFlags.has(flag)) return this.#ruleOption(flag, tokens, at);
    if (!flag.startsWith('--')) {
      this.#value(token);
      return at;
    }
    this.#open().push(this.#option(flag));
    if (!textFlags.has(flag) || value === undefined) return at;
    this.#value(value);
    return at + 1;
  }

  result(): RuleParts {
    const target = this.#target;
    return {
      options: this.#options.map(close),
      matches: this.#matches.map(match => ({name: match.name, options: match.options.map(close)})),
      target: target === null ? null : {name: target.name, goto: target.goto, options: target.options.map(close)},
    };
  }

  #flip(at: number): number {
    this.#negate = true;
    return at;
  }

  /** `-s VALUE`, `! -s VALUE` and, from iptables before 1.4.3, `-s ! VALUE`. */
  #ruleOption(flag: string, tokens: readonly Token[], at: number): number {
    const option = this.#option(flag);
    this.#options.push(option);
    if (flag === '-f') return at;
    const late = tokens[at + 1]?.text === '!';
    const value = tokens[late ? at + 2 : at + 1];
    if (late) option.negated = true;
    if (value === undefined) return late ? at + 1 : at;
    option.values.push(value.text);
    return late ? at + 2 : at + 1;
  }

  #option(flag: string): OpenOption {
    const option = {flag, negated: this.#negate, values: [], quoted: false};
    this.#negate = false;
    return option;
  }

  /** A value of the previous option; a word without an option is kept as an option without a flag. */
  #value(token: Token): void {
    const open = this.#open();
    let last = open.at(-1);
    if (last === undefined) {
      last = this.#option('');
      open.push(last);
    } else if (this.#negate) {
      last.negated = true;
      this.#negate = false;
    }
    last.values.push(token.text);
    if (token.quoted) last.quoted = true;
  }

  /** The options of the current part. An option before any `-m` belongs to the match of the protocol. */
  #open(): OpenOption[] {
    if (this.#part !== null) return this.#part;
    this.#part = [];
    this.#matches.push({name: this.#options.find(option => option.flag === '-p')?.values[0] ?? '', options: this.#part});
    return this.#part;
  }
}

function isNumber(token: Token | undefined): boolean {
  return token !== undefined && /^\d+$/.test(token.text);
}

function close(option: OpenOption): RuleOption {
  const {flag, negated, values} = option;
  return option.quoted ? {flag, negated, values, quoted: true} : {flag, negated, values};
}

const ruleFlags = new Set(['-s', '-d', '-i', '-o', '-p', '-f']);

/** Their value may be any text, such as `-j`, which iptables-save prints without quotes. */
const textFlags = new Set(['--comment', '--log-prefix', '--nflog-prefix', '--ulog-prefix']);

const shortFlag: ReadonlyMap<string, string> = new Map([
  ['--source', '-s'],
  ['--src', '-s'],
  ['--destination', '-d'],
  ['--dst', '-d'],
  ['--in-interface', '-i'],
  ['--out-interface', '-o'],
  ['--protocol', '-p'],
  ['--fragment', '-f'],
  ['--match', '-m'],
  ['--jump', '-j'],
  ['--goto', '-g'],
]);
