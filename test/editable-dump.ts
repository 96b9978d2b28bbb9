/** The text of an iptables-save dump, changed line by line. A pattern that does not name exactly one line is a mistake of the test. */
export class EditableDump {
  #lines: string[];

  constructor(text: string) {
    this.#lines = text.split('\n');
  }

  toString(): string {
    return this.#lines.join('\n');
  }

  /** Takes over all lines of another dump. */
  become(other: EditableDump): void {
    this.#lines = [...other.#lines];
  }

  /** The one line that holds all these words. */
  line(...words: readonly string[]): string {
    return this.#lines[this.#at(words)] ?? '';
  }

  /** The line as a finding names it: `12: -A …`. */
  evidence(...words: readonly string[]): string {
    const at = this.#at(words);
    return `${at + 1}: ${this.#lines[at]}`;
  }

  /** All lines that hold all these words. */
  lines(...words: readonly string[]): readonly string[] {
    return this.#lines.filter(line => holds(line, words));
  }

  /** Deletes the one line that holds all these words, and returns it. */
  delete(...words: readonly string[]): string {
    return this.#lines.splice(this.#at(words), 1)[0] ?? '';
  }

  /** Deletes every line that holds all these words; there must be one at least. */
  deleteAll(...words: readonly string[]): readonly string[] {
    const found = this.lines(...words);
    if (found.length === 0) throw new Error(`no line holds ${words.join(' and ')}`);
    this.#lines = this.#lines.filter(line => !holds(line, words));
    return found;
  }

  /** Puts another text in the place of a part of the one line that holds all these words. Returns the line as it was. */
  replace(words: readonly string[], part: string | RegExp, by: string): string {
    const at = this.#at(words);
    const line = this.#lines[at] ?? '';
    const changed = line.replace(part, by);
    if (changed === line) throw new Error(`nothing to replace in: ${line}`);
    this.#lines[at] = changed;
    return line;
  }

  /** Puts lines before the one that holds all these words. */
  insertBefore(words: readonly string[], ...lines: readonly string[]): void {
    this.#lines.splice(this.#at(words), 0, ...lines);
  }

  insertAfter(words: readonly string[], ...lines: readonly string[]): void {
    this.#lines.splice(this.#at(words) + 1, 0, ...lines);
  }

  /** Puts a rule behind the last one of its chain in a table, or behind all others of the table. */
  append(table: string, rule: string): void {
    const [start, end] = this.#table(table);
    const chain = rule.split(' ', 2).join(' ');
    const last = this.#lines.findLastIndex((line, at) => at > start && at < end && line.startsWith(`${chain} `));
    this.#lines.splice(last < 0 ? end : last + 1, 0, rule);
  }

  /** Declares a chain in a table. */
  declare(table: string, chain: string): void {
    this.#lines.splice(this.#table(table)[0] + 1, 0, `:${chain} - [0:0]`);
  }

  /** Gives a base chain another policy. */
  policy(table: string, chain: string, policy: string): void {
    const [start, end] = this.#table(table);
    const at = this.#lines.findIndex((line, index) => index > start && index < end && line.startsWith(`:${chain} `));
    if (at < 0) throw new Error(`table ${table} has no chain ${chain}`);
    this.#lines[at] = `:${chain} ${policy} [0:0]`;
  }

  /** Takes a table out, from its header to its COMMIT. */
  deleteTable(table: string): void {
    const [start, end] = this.#table(table);
    this.#lines.splice(start, end - start + 1);
  }

  /** Exchanges the one line with the one behind it. */
  swapWithNext(...words: readonly string[]): void {
    const at = this.#at(words);
    const [first = '', second = ''] = this.#lines.slice(at, at + 2);
    this.#lines.splice(at, 2, second, first);
  }

  /** Ends the dump behind the line that holds all these words. */
  cutAfter(...words: readonly string[]): void {
    this.#lines = [...this.#lines.slice(0, this.#at(words) + 1), ''];
  }

  /** Replaces in every line; some line must change. */
  replaceAll(part: string, by: string): void {
    const changed = this.#lines.map(line => line.replaceAll(part, by));
    if (changed.every((line, at) => line === this.#lines[at])) throw new Error(`no line holds ${part}`);
    this.#lines = changed;
  }

  #table(name: string): readonly [start: number, end: number] {
    const start = this.#lines.indexOf(`*${name}`);
    if (start < 0) throw new Error(`the dump has no table ${name}`);
    return [start, this.#lines.indexOf('COMMIT', start)];
  }

  #at(words: readonly string[]): number {
    const at = this.#lines.findIndex(line => holds(line, words));
    if (at < 0) throw new Error(`no line holds ${words.join(' and ')}`);
    if (this.#lines.findLastIndex(line => holds(line, words)) !== at) throw new Error(`more than one line holds ${words.join(' and ')}`);
    return at;
  }
}

function holds(line: string, words: readonly string[]): boolean {
  return words.every(word => line.includes(word));
}

/** Puts a rule at the start of its chain, which is declared if it is not. */
export function withRule(table: string, rule: string): (dump: string) => string {
  const [, chain = ''] = rule.split(' ');
  return dump => {
    const start = dump.indexOf(`*${table}\n`);
    const end = dump.indexOf('\nCOMMIT', start) + 1;
    const first = dump.indexOf(`\n-A ${chain} `, start) + 1;
    const declared = dump.slice(start, end).includes(`\n:${chain} `) ? '' : `:${chain} - [0:0]\n`;
    const at = first > 0 && first < end ? first : end;
    return `${dump.slice(0, at)}${declared}${rule}\n${dump.slice(at)}`;
  };
}
