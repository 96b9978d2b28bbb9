/** A number with its noun: `1 rule`, `2 rules`. `many` is the plural of a noun that does not just take an s. */
export function plural(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** Text of a node that is more than can be read of its kind. */
export class UnreadableText extends Error {
  override readonly name = 'UnreadableText';
}

interface SomeOptions {
  /** How many names are listed. */
  readonly max?: number;
  /** What the others are, in the singular; without it only their number is told. */
  readonly noun?: string;
  /** How many there are, where no more than the first ones are given. */
  readonly count?: number;
}

/** A list of names for a sentence: the first ones and the number of the others, as in `a, b and 1 more Service`. */
export function someOf(names: readonly string[], {max = 5, noun, count = names.length}: SomeOptions = {}): string {
  const rest = count - max;
  if (rest <= 0) return names.join(', ');
  return `${names.slice(0, max).join(', ')} and ${noun === undefined ? `${rest} more` : plural(rest, `more ${noun}`)}`;
}

/** Whether a version such as `1.8.9` is this one or later. */
export function isAtLeast(version: string, wanted: readonly number[]): boolean {
  const own = version.split('.').map(Number);
  const at = wanted.findIndex((number, index) => own[index] !== number);
  return at < 0 || (own[at] ?? 0) > (wanted[at] ?? 0);
}

/** The message of a thrown value of any type. A file that cannot be used is named by the caller: of its error, only the reason is left. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const isOfFile =
    'code' in error &&
    'syscall' in error &&
    /^(?:open|read|stat|lstat|scandir|mkdir|mkdtemp|rmdir|rename|link|copyfile|write|access)$/.test(String(error.syscall));
  const code = isOfFile ? String(error.code) : '';
  return fileErrors[code] ?? yamlProblem(error) ?? error.message;
}

/** A YAMLException of js-yaml in plain words: the line, and what is wrong where it is a common mistake. */
function yamlProblem(error: Error & {readonly reason?: unknown; readonly mark?: {readonly line: number}}): string | null {
  if (error.name !== 'YAMLException') return null;
  const [, mistake] = yamlMistakes.find(([pattern]) => pattern.test(String(error.reason))) ?? [];
  const where = error.mark === undefined ? 'it' : `line ${error.mark.line + 1}`;
  return `${where} is not valid YAML${mistake === undefined ? '' : ` (${mistake})`}`;
}

const yamlMistakes: readonly (readonly [reason: RegExp, mistake: string])[] = [
  [/tab characters/, 'a tab indents it'],
  [/indentation/, 'its indentation does not fit, or a bracket above is open'],
  [/duplicated mapping key/, 'its key is there twice'],
  [/unidentified alias/, 'it refers to an anchor that is not defined'],
  [/unexpected end/, 'a bracket or quote is not closed'],
];

const fileErrors: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or directory',
  ENOTDIR: 'a part of the path is not a directory',
  EISDIR: 'it is a directory',
  EACCES: 'permission denied',
  ENOSPC: 'no space left on device',
  EROFS: 'the file system is read-only',
  ENOTEMPTY: 'the directory is not empty',
  ENAMETOOLONG: 'the name is too long',
};

declare const isCommand: unique symbol;

/** A text that a shell reads as the command that was meant. Only `commandLine` makes one: no other text is printed to be copied. */
export type CommandLine = string & {readonly [isCommand]: true};

/**
 * A command line for a shell: names from the cluster are quoted, whatever they contain. Null if one of them is empty or begins with a dash,
 * which a program could take for an option, or has a character that a terminal must not get.
 */
export function commandLine(parts: TemplateStringsArray, ...names: readonly string[]): CommandLine | null {
  if (names.some(name => name === '' || name.startsWith('-') || unprintable.test(name))) return null;
  return parts.map((part, index) => part + (index < names.length ? shellWord(names[index] ?? '') : '')).join('') as CommandLine;
}

/** One command of several parts; null if one of them is. */
export function joinedCommand(...parts: readonly (CommandLine | null)[]): CommandLine | null {
  return parts.includes(null) ? null : (parts.filter(part => part !== '').join(' ') as CommandLine);
}

const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

/** One word for a shell, as it is where it needs no quotes. bash, zsh, dash and BusyBox read single quotes alike. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** What the API server takes as the name of a namespace, a Service or a port. */
export function isDnsLabel(text: string): boolean {
  return text.length <= 63 && /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/.test(text);
}

/** `namespace/name`, which identifies an object among those of its kind. Namespaced objects always have a namespace here. */
export function namespacedName({namespace = 'default', name}: {readonly namespace?: string | undefined; readonly name: string}): string {
  return `${namespace}/${name}`;
}

/** `namespace/name:port`, as kube-proxy names a Service port; without a port of that name the Service alone. Not escaped. */
export function servicePortText(service: Parameters<typeof namespacedName>[0], port?: {readonly name: string}): string {
  return `${namespacedName(service)}${port === undefined || port.name === '' ? '' : `:${port.name}`}`;
}

/** Order of two texts by their UTF-16 code units, the same in every locale, or of two numbers; for `sort`. */
export function compareText<T extends string | number>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A text without the users and passwords in its URLs. */
export function withoutPassword(text: string): string {
  return text.replace(/([a-z][a-z0-9+.-]*:\/\/)\S*@/gi, '$1');
}
