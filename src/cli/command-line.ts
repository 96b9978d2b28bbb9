/**
 * The flags with a value, so that the next word is not read as a command or a Service. They are listed here because they are needed before
 * the command is known.
 */
export const valueFlags: readonly string[] = `
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

/**
 * The arguments with the command's name first, as oclif expects them: `-n shop check -A` becomes `check -n shop -A`. A first word that is
 * not a command is a Service to trace: `-n shop web` becomes `trace -n shop web`. `help check` becomes `check --help`. Unchanged: no
 * arguments, a leading `--version`, and a call for help without a command.
 */
export function withCommand(argv: readonly string[], commands: readonly string[], flagsWithValue: readonly string[]): string[] {
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
function namesNoCommand(words: readonly string[], commands: readonly string[], flagsWithValue: readonly string[]): boolean {
  const at = firstWord(words, flagsWithValue);
  return at !== undefined && !commands.includes(words[at] ?? '');
}

/** The word in the position of a command that was taken for a Service; null if there is none. */
export function wordForCommand(argv: readonly string[], commands: readonly string[], flagsWithValue: readonly string[]): string | null {
  const at = firstWord(argv, flagsWithValue);
  const word = at === undefined ? undefined : argv[at];
  return word === undefined || word === 'help' || commands.includes(word) ? null : word;
}

/** The index of the first argument that is neither a flag nor a flag's value; the search ends at `--`. */
function firstWord(argv: readonly string[], flagsWithValue: readonly string[]): number | undefined {
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at] ?? '';
    if (argument === '--') return undefined;
    if (!argument.startsWith('-') || argument === '-') return at;
    if (takesNext(argument, flagsWithValue)) at++;
  }
  return undefined;
}

/** Whether the next argument is this flag's value: not for `--node=a` or `-nshop`, but for `--node`, `-n` and `-An`. */
function takesNext(flag: string, flagsWithValue: readonly string[]): boolean {
  if (flag.startsWith('--')) return flagsWithValue.includes(flag);
  const letters = [...flag.slice(1)];
  return letters.findIndex(letter => flagsWithValue.includes(`-${letter}`)) === letters.length - 1;
}

/** Whether a flag before `--` is one of help: `--help=all` describes every flag. */
export function asksForHelp(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return argv.slice(0, end < 0 ? undefined : end).some(word => /^(?:-h|--help(?:=all)?)$/.test(word));
}
