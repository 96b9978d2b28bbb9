import type {User} from './kubeconfig.ts';

/** The headers that ask the API server to act as someone else. Follows client-go's impersonatingRoundTripper. */
export function impersonationHeaders(user: User): Readonly<Record<string, string | readonly string[]>> {
  if (!user.as) return {};
  return {
    'Impersonate-User': headerText(user.as),
    ...(user['as-uid'] ? {'Impersonate-Uid': headerText(user['as-uid'])} : {}),
    ...(user['as-groups']?.length ? {'Impersonate-Group': user['as-groups'].map(headerText)} : {}),
    ...Object.fromEntries(
      Object.entries(user['as-user-extra'] ?? {}).map(([key, values]) => [`Impersonate-Extra-${headerName(key)}`, values.map(headerText)]),
    ),
  };
}

/** Go sends UTF-8 in a header unchanged; Node.js needs a string with one character for each byte. */
function headerText(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

/** Keys such as `scopes.example.com/a` contain characters that are invalid in header names: these and `%` are percent-encoded. */
function headerName(key: string): string {
  return [...Buffer.from(key, 'utf8')]
    .map(byte =>
      /[A-Za-z0-9!#$&'*+.^_`|~-]/.test(String.fromCharCode(byte))
        ? String.fromCharCode(byte)
        : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`,
    )
    .join('');
}
