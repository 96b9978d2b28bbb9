/** A command line as it can be typed again, with what is secret left out. */
export function commandText(args: readonly string[]): string {
  const shown = args.map((arg, index) => {
    const [flag = '', value] = arg.split(/=(.*)/s);
    if (value !== undefined && secretFlags.has(flag)) return `${flag}=${hidden}`;
    return secretFlags.has(args[index - 1] ?? '') ? hidden : quoted(arg);
  });
  return ['kubectl svc-trace', ...shown].join(' ');
}

const secretFlags: ReadonlySet<string> = new Set(['--token']);
const hidden = 'HIDDEN';

function quoted(arg: string): string {
  return /^[\w./:=,@%+-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`;
}
