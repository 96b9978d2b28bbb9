/**
 * A line as the terminal printed it, before it was pasted into a chat, an issue, a blog post or a document: without colors, Markdown, HTML
 * tags and line numbers of an editor, and with ASCII quotes and dashes.
 */
export function undecorate(line: string): string {
  let text = line.endsWith('\r') ? line.slice(0, -1) : line;
  if (text.includes('\u001b')) text = withoutColors(text);
  if (!isPlain(text)) text = withPlainCharacters(text);
  if (text.includes('<') || text.includes('&')) text = withoutTags(text);
  return withoutMarks(text);
}

/** Whether a line contains an HTML tag for a line break. */
export function breaksLines(text: string): boolean {
  return /<br\s*\/?>/i.test(text);
}

function isPlain(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII is meant
  return /^[\x00-\x7f]*$/.test(text);
}

function withoutColors(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with one
  return text.replace(/\x1b\[[0-9;]*[A-Za-z]/g, '');
}

/** Full-width letters, spaces of other widths, typographic quotes, and dashes that replace two hyphens. */
function withPlainCharacters(line: string): string {
  const narrow = line
    .replace(/[\uff01-\uff5e]/g, letter => String.fromCharCode(letter.charCodeAt(0) - 0xfee0))
    .replace(/[\u00a0\u2000-\u200a\u202f\u3000]/g, ' ')
    .replace(/\u200b|\u200c|\u200d|\ufeff/g, '');
  const straight = narrow.includes('"') ? narrow : narrow.replace(/[\u201c\u201d\u201e\u201f]/g, '"');
  return straight.replace(/^(\s*)[\u2010-\u2015\u2212](?=[AIDNP] )/, '$1-').replace(/(?<=\s)[\u2012-\u2015\u2212](?=[a-z])/g, '--');
}

const tags =
  /<\/?(?:pre|code|samp|kbd|tt|p|div|span|li|ul|ol|td|tr|th|table|tbody|b|i|em|strong|mark|blockquote|a|font|h[1-6]|br)\b[^>]*>/gi;
const entities: Readonly<Record<string, string>> = {lt: '<', gt: '>', amp: '&', quot: '"', apos: "'", nbsp: ' ', '#39': "'", '#34': '"'};

function withoutTags(text: string): string {
  return text.replace(tags, '').replace(/&(lt|gt|amp|quot|apos|nbsp|#39|#34);/g, (whole, name: string) => entities[name] ?? whole);
}

/** The beginnings of relevant lines: a rule, a declaration, a table, a heading, a counter. */
const begins = String.raw`(?:-[APN] \S|:[A-Za-z][\w-]* [A-Z-]|\*(?:nat|filter|mangle|raw|security)\s*$|\[\d+:\d+\] -A |Chain \S+ \()`;
const quoteMark = /^\s*(?:>\s?)+/;
const listMark = new RegExp(`^\\s*(?:[-*+\u2022]|\\d+[.)])\\s+\`?(?=${begins})`);
const lineNumber = new RegExp(`^\\s*\\d+(?:[:|]|\\s|\t)\\s*(?=${begins})`);

function withoutMarks(line: string): string {
  let text = line;
  if (/^\s*>/.test(text)) text = text.replace(quoteMark, '');
  if (/^\s*[-*+\u2022\d]/.test(text)) text = text.replace(listMark, '').replace(lineNumber, '');
  return text.includes('`') ? text.replace(/^\s*`{1,3}(?=[^`])/, '').replace(/(?<=[^`])`{1,3}\s*$/, '') : text;
}
