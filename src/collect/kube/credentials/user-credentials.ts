import {type ClientCertificate, type Credentials, fixedCredentials} from './credentials.ts';
import {execCredentials, type PluginSurroundings} from './exec-credentials.ts';
import type {User} from '../kubeconfig.ts';
import {oidcCredentials} from './oidc-credentials.ts';
import {pemOf} from '../pem.ts';
import {tokenFileCredentials} from './token-file-credentials.ts';

interface NamedUser {
  readonly name: string;
  readonly user: User;
}

/** The credentials of a kubeconfig user. As in client-go, a token takes precedence over a plugin, which does not run then. */
export function userCredentials({name, user}: NamedUser, plugin: PluginSurroundings): Credentials {
  const whose = name === '' ? '' : ` of user "${name}"`;
  const certificate = clientCertificate(user);
  if (user.tokenFile) return tokenFileCredentials(user.tokenFile, {fallback: user.token || null, certificate});
  if (user.token) return fixedCredentials(`the token${whose}`, {token: user.token, certificate});
  if (user.username) {
    return fixedCredentials(`the password${whose}`, {password: {username: user.username, password: user.password ?? ''}, certificate});
  }
  if (user.exec) return execCredentials(user.exec, {...plugin, certificate});
  if (user['auth-provider']) return oidcCredentials({name, user, certificate, environment: plugin.environment});
  if (certificate !== null) return fixedCredentials(`the client certificate${whose}`, {certificate});
  return fixedCredentials(name === '' ? 'no credentials' : `user "${name}", who has no credentials in the kubeconfig`);
}

function clientCertificate(user: User): ClientCertificate | null {
  const cert = pemOf(user['client-certificate-data'], user['client-certificate'], 'client certificate');
  const key = pemOf(user['client-key-data'], user['client-key'], 'client key');
  return cert === null || key === null ? null : {cert, key};
}
