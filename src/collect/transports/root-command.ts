/** Directories of the tools that are not in a plain user's `PATH`, including those of NixOS and k3s. */
export const toolFolders = '/usr/local/sbin:/usr/sbin:/sbin:/run/current-system/sw/bin:/var/lib/rancher/k3s/data/current/bin/aux';

/** The argv with `sudo -n` before it: never asks for a password. */
export function asRoot(argv: readonly string[], sudo: boolean): readonly string[] {
  return sudo ? ['sudo', '-n', '--', ...argv] : argv;
}

/** Whether a command failed because its program does not exist, by the messages of env, sudo, nsenter and container runtimes. */
export function isProgramMissing({exitCode, stderr}: {readonly exitCode: number | null; readonly stderr: string}): boolean {
  if (exitCode === 127) return true;
  if (/^sudo: .*: command not found/m.test(stderr)) return true;
  return (exitCode === null || exitCode === 126) && /executable file not found|exec.*no such file or directory/i.test(stderr);
}

/** The message of sudo if sudo refused; otherwise null. */
export function sudoRefusal(stderr: string): string | null {
  return (
    /^(?:sudo: .*(?:password is required|terminal is required|no tty present|account validation).*|.*is not in the sudoers file.*|Sorry, user .* (?:is not allowed|may not).*)$/m.exec(
      stderr,
    )?.[0] ?? null
  );
}
