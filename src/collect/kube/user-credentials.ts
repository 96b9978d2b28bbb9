import {readFileSync} from 'node:fs';
import {bearer, type ClientCertificate, type Credentials, fixedCredentials} from './credentials.ts';
import {execCredentials, type PluginSurroundings} from './exec-credentials.ts';
import {KubeconfigError, type User} from './kubeconfig.ts';
import {oidcCredentials} from './oidc-credentials.ts';
import {tokenFileCredentials} from './token-file-credentials.ts';

export interface NamedUser {
  readonly name: string;
  readonly user: User;
}

/** The credentials of a user of a kubeconfig. A token given outright goes before a plugin, which is not run then, as in client-go. */
export function userCredentials({name, user}: NamedUser, plugin: PluginSurroundings): Credentials {
  const whose = name === '' ? '' : ` of user "${name}"`;
  const certificate = clientCertificate(user);
  if (user.tokenFile) return tokenFileCredentials(user.tokenFile, {fallback: user.token || null, certificate});
  if (user.token) return fixedCredentials(`the token${whose}`, {authorization: bearer(user.token), certificate});
  if (user.username || user.password) {
    const password = Buffer.from(`${user.username ?? ''}:${user.password ?? ''}`).toString('base64');
    return fixedCredentials(`the password${whose}`, {authorization: `Basic ${password}`, certificate});
  }
  if (user.exec) return execCredentials(user.exec, {...plugin, certificate});
  if (user['auth-provider']) return oidcCredentials(user['auth-provider'], certificate);
  if (certificate !== null) return fixedCredentials(`the client certificate${whose}`, {authorization: null, certificate});
  return fixedCredentials(name === '' ? 'no credentials' : `user "${name}", who has no credentials in the kubeconfig`, {
    authorization: null,
    certificate: null,
  });
}

function clientCertificate(user: User): ClientCertificate | null {
  const cert = pemOf(user['client-certificate-data'], user['client-certificate'], 'client certificate');
  const key = pemOf(user['client-key-data'], user['client-key'], 'client key');
  return cert === null || key === null ? null : {cert, key};
}

/** Text given in base64 or in a file; null where neither is. Throws KubeconfigError when the file cannot be read. */
export function pemOf(data: string | undefined, file: string | undefined, what: string): string | null {
  if (data) return Buffer.from(data, 'base64').toString('utf8');
  if (!file) return null;
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new KubeconfigError(`cannot read the ${what} ${file}: ${error instanceof Error ? error.message : String(error)}`, {cause: error});
  }
}
