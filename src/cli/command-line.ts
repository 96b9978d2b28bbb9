import {pushTo} from '../model/lists.ts';
import type {FlagSpec} from './complete/command-spec.ts';

type Flags = Readonly<Record<string, FlagSpec>>;

/**
 * The flags with a value, so that the next word is not read as a command or a Service. They are listed here because they are needed before
 * the command is known.
 */
const valueWords = `
  --kubeconfig --context --cluster --user -n --namespace -l --selector -s --server --token --as --as-group --as-uid --as-user-extra
  --certificate-authority --client-certificate --client-key --tls-server-name --request-timeout --proxy-url
  --node --node-selector --sample
  --transport --from --concurrency --node-timeout --ssh-user --ssh-port --ssh-option --ssh-address
  --debug-image --debug-namespace --image-pull-secret
  --proxy-mode --cluster-cidr --detect-local-mode --masquerade-bit --nodeport-addresses --kube-proxy-version --zone
  -o --output --output-file --color
  --summary-file --max-archive-size --plan --fail-on --only --skip --baseline --wait --interval --settle --listen --agents-namespace --agents-selector
  --source --destination --port --protocol --in-interface --local-address
  --for-node -f --filename --endpoint --family --config
`
  .trim()
  .split(/\s+/);

export const valueFlags: Flags = Object.fromEntries(
  valueWords.map(word => {
    const name = word.replace(/^-+/, '');
    return [name, {name, char: word.startsWith('--') ? undefined : name, type: 'option'}];
  }),
);

/**
 * The arguments with the command's name first, as oclif expects them: `-n shop check -A` becomes `check -n shop -A`. A first word that is
 * not a command is a Service to trace: `-n shop web` becomes `trace -n shop web`. `help check` becomes `check --help`. Unchanged: no
 * arguments, a leading `--version`, and a call for help without a command.
 */
export function withCommand(argv: readonly string[], commands: readonly string[], flagsWithValue: Flags): string[] {
  if (argv.length === 0 || argv[0] === '--version') return [...argv];
  const at = firstWord(argv, flagsWithValue);
  if (at === undefined) return asksForHelp(argv) ? [...argv] : [isForAll(argv) ? 'check' : 'trace', ...argv];
  const word = argv[at] ?? '';
  const others = argv.toSpliced(at, 1);
  if (word === 'help')
    return namesNoCommand(others, commands, flagsWithValue) ? [...argv] : withCommand(['--help', ...others], commands, flagsWithValue);
  return commands.includes(word) ? [word, ...others] : ['trace', ...argv];
}

/** All Services are checked; a path to each of them would be long. */
function isForAll(argv: readonly string[]): boolean {
  return argv.some(word => word === '-A' || word === '--all-namespaces') && !argv.some(word => /^(?:-l|--selector)/.test(word));
}

/** `help WORD` with a word that is not a command: the caller reports it. */
function namesNoCommand(words: readonly string[], commands: readonly string[], flagsWithValue: Flags): boolean {
  const at = firstWord(words, flagsWithValue);
  return at !== undefined && !commands.includes(words[at] ?? '');
}

/** The word in the position of a command that was taken for a Service; null if there is none. */
export function wordForCommand(argv: readonly string[], commands: readonly string[], flagsWithValue: Flags): string | null {
  const at = firstWord(argv, flagsWithValue);
  const word = at === undefined ? undefined : argv[at];
  return word === undefined || word === 'help' || commands.includes(word) ? null : word;
}

/** The index of the first argument that is neither a flag nor a flag's value; the search ends at `--`. */
export function firstWord(argv: readonly string[], flagsWithValue: Flags): number | undefined {
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at] ?? '';
    if (argument === '--') return undefined;
    if (!argument.startsWith('-') || argument === '-') return at;
    const last = [...flagsIn(argument, flagsWithValue)].at(-1);
    if (last !== undefined && last[1] === undefined) at++;
  }
  return undefined;
}

/** Whether a flag before `--` is one of help: `--help=all` describes every flag. */
export function asksForHelp(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return argv.slice(0, end < 0 ? undefined : end).some(word => /^(?:-h|--help(?:=all)?)$/.test(word));
}

/** What is said behind a command. */
export interface GivenFlags {
  /** By long name; a switch has the value `true`. */
  readonly flags: ReadonlyMap<string, readonly string[]>;
  readonly args: readonly string[];
  /** The last flag, whose value would be the next word. */
  readonly pending: FlagSpec | undefined;
  /** No flags follow after `--`. */
  readonly onlyArgs: boolean;
}

/** Unknown flags are left out. */
export function readFlags(words: readonly string[], known: Flags): GivenFlags {
  const flags = new Map<string, string[]>();
  const args: string[] = [];
  let pending: FlagSpec | undefined;
  let onlyArgs = false;
  for (const word of words) {
    if (pending !== undefined) {
      pushTo(flags, pending.name, word);
      pending = undefined;
    } else if (onlyArgs || !/^-./s.test(word)) args.push(word);
    else if (word === '--') onlyArgs = true;
    else
      for (const [flag, value] of flagsIn(word, known)) {
        if (value === undefined) pending = flag;
        else pushTo(flags, flag.name, value);
      }
  }
  return {flags, args, pending, onlyArgs};
}

/**
 * The flags that a word has, with their values: undefined if it is the next word. One or none of a long name; of letters (`-Ao`, `-nshop`)
 * all up to the one with a value.
 */
function* flagsIn(word: string, known: Flags): Iterable<readonly [flag: FlagSpec, value: string | undefined]> {
  const [, name, value] = /^--([^=]+)(?:=(.*))?$/s.exec(word) ?? [];
  const named = name === undefined ? undefined : (known[name] ?? known[name.replace(/^no-/, '')]);
  if (named !== undefined) yield [named, named.type === 'boolean' ? 'true' : value];
  if (word.startsWith('--')) return;
  for (let at = 1; at < word.length; at++) {
    const flag = Object.values(known).find(({char}) => char === word[at]);
    if (flag?.type === 'option') return yield [flag, at + 1 < word.length ? word.slice(at + 1).replace(/^=/, '') : undefined];
    if (flag !== undefined) yield [flag, 'true'];
  }
}
