import {asRuleLine, isListing} from './iptables-list.ts';

/**
 * Text as people paste it, in place of a dump: the output of `iptables -L`, rules broken over lines, quotes and dashes that a word
 * processor or a blog made of ASCII ones. Gives it back as `iptables -S` would print it, line for line, so that numbers of lines stay.
 * Null when the input is a dump with tables, which is taken as it stands.
 */
export function fromPastedText(bytes: Buffer): Buffer | null {
  if (hasTables(bytes)) return null;
  const text = bytes.toString('utf8');
  if (!isListing(text) && isPlain(text) && !brokenRule.test(text)) return null;
  const lines = joinBroken(text.split('\n').map(withPlainCharacters));
  return Buffer.from((isListing(text) ? asRules(lines) : lines).join('\n'));
}

function hasTables(bytes: Buffer): boolean {
  // A dump says so in its first lines; only what does not is looked through.
  if (/^\*[a-z]+\s*$/m.test(bytes.toString('latin1', 0, 4096))) return true;
  return ['nat', 'filter', 'mangle', 'raw', 'security'].some(name => bytes.indexOf(`\n*${name}`) >= 0);
}

function isPlain(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII is meant
  return /^[\x00-\x7f]*$/.test(text);
}

/** A rule whose quote is not closed, or that leads nowhere, in its line. */
const brokenRule = /^[ \t]*-A (?:[^\n"]*(?:"[^"\n]*"[^\n"]*)*"[^"\n]*|(?:(?! -[jg] )[^\n])*|[^\n]* KUBE-[A-Z]{2,3}-[A-Z2-7]{0,15})$/m;

/** Full-width letters, blanks of other widths, quotes that lean and dashes that grew together. */
function withPlainCharacters(line: string): string {
  if (isPlain(line)) return line;
  const narrow = line
    .replace(/[\uff01-\uff5e]/g, letter => String.fromCharCode(letter.charCodeAt(0) - 0xfee0))
    .replace(/[\u00a0\u2000-\u200a\u202f\u3000]/g, ' ')
    .replace(/\u200b|\u200c|\u200d|\ufeff/g, '');
  const straight = narrow.includes('"') ? narrow : narrow.replace(/[\u201c\u201d\u201e\u201f]/g, '"');
  return straight.replace(/^(\s*)[\u2010-\u2015\u2212](?=[AIDNP] )/, '$1-').replace(/(?<=\s)[\u2012-\u2015\u2212](?=[a-z])/g, '--');
}

/** Puts the rest of a rule that was broken over lines behind its beginning, and leaves empty lines in its place. */
function joinBroken(lines: readonly string[]): readonly string[] {
  const joined = [...lines];
  let open = -1;
  for (const [at, line] of lines.entries()) {
    const start = open < 0 ? '' : (joined[open] ?? '');
    if (open >= 0 && goesOn(start, line)) {
      joined[open] = `${start.trimEnd()}${breaksWord(start, line) ? '' : ' '}${line.trim()}`;
      joined[at] = '';
    } else {
      open = /^\s*-A \S/.test(line) ? at : -1;
    }
  }
  return joined;
}

function goesOn(rule: string, line: string): boolean {
  const text = line.trim();
  if (text === '' || /^(?:-[AIDNP] |:|#|\*|COMMIT|Chain )/.test(text)) return false;
  return (
    hasOpenQuote(rule) || breaksWord(rule, line) || (!/ -[jg] \S/.test(rule) && /^!? ?--?[a-z]|^\S+$/.test(text)) || /^--[a-z]/.test(text)
  );
}

function hasOpenQuote(rule: string): boolean {
  return (rule.replace(/\\./g, '').match(/"/g)?.length ?? 0) % 2 === 1;
}

/** The name of a chain of kube-proxy's ends with 16 characters: one that was cut shorter goes on in the next line. */
function breaksWord(rule: string, line: string): boolean {
  const cut = /KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-([A-Z2-7]{0,15})$/.exec(rule.trimEnd())?.[1];
  const rest = /^[A-Z2-7]+(?=\s|$)/.exec(line.trim())?.[0];
  return cut !== undefined && rest !== undefined && cut.length + rest.length === 16;
}

function asRules(lines: readonly string[]): readonly string[] {
  let chain: string | null = null;
  let verbose = false;
  return lines.map(line => {
    const read = asRuleLine(line, {chain, verbose});
    if (read.chain !== undefined) chain = read.chain;
    if (read.verbose !== undefined) verbose = read.verbose;
    return read.text;
  });
}
