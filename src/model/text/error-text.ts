/** The message of a thrown value of any type. A file that cannot be used is named by the caller: of its error, only the reason is left. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const isOfFile =
    'code' in error && 'syscall' in error && /^(?:open|read|stat|lstat|scandir|mkdir|rename|write)$/.test(String(error.syscall));
  const code = isOfFile ? String(error.code) : '';
  return fileErrors[code] ?? error.message;
}

const fileErrors: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or directory',
  ENOTDIR: 'a part of the path is not a directory',
  EISDIR: 'it is a directory',
  EACCES: 'permission denied',
  ENOSPC: 'no space left on device',
};
