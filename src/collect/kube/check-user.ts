import {type ExecConfig, KubeconfigError, type User} from './kubeconfig.ts';

/** Throws KubeconfigError if a user of a kubeconfig contradicts itself. Follows client-go's validateAuthInfo. */
export function checkUser(user: User, name: string): void {
  const problems = [
    ...methodProblems(user),
    ...certificateProblems(user),
    ...(user.exec ? execProblems(user, user.exec) : []),
    ...impersonationProblems(user),
  ];
  if (problems.length > 0) throw new KubeconfigError(`the kubeconfig's user "${name}" cannot be used: ${problems.join('; ')}`);
}

function methodProblems(user: User): readonly string[] {
  return user.token && (user.username || user.password) ? ['it has both a token and a user name with a password: only one is allowed'] : [];
}

function certificateProblems(user: User): readonly string[] {
  const problems: string[] = [];
  const {'client-certificate': cert, 'client-certificate-data': certData, 'client-key': key, 'client-key-data': keyData} = user;
  if (!cert && !certData) return problems;
  if (cert && certData) problems.push('it has both client-certificate and client-certificate-data');
  if (key && keyData) problems.push('it has both client-key and client-key-data');
  if (!key && !keyData) problems.push('it has a client certificate but no client-key');
  return problems;
}

function execProblems(user: User, exec: ExecConfig): readonly string[] {
  const problems: string[] = [];
  if (user['auth-provider']) problems.push('it has both exec and auth-provider');
  if (!exec.command) problems.push('its exec has no command');
  if (exec.env?.some(({name}) => !name)) problems.push('its exec has a variable without a name');
  if (!execVersions.includes(exec.apiVersion ?? '')) {
    problems.push(`its exec has the apiVersion "${exec.apiVersion ?? ''}", and ${execVersions.join(' and ')} are known`);
  } else if (exec.interactiveMode === undefined ? exec.apiVersion === execVersions[0] : !interactiveModes.includes(exec.interactiveMode)) {
    problems.push(`its exec has the interactiveMode "${exec.interactiveMode ?? ''}", which must be one of ${interactiveModes.join(', ')}`);
  }
  return problems;
}

const execVersions = ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1'];
const interactiveModes = ['Never', 'IfAvailable', 'Always'];

function impersonationProblems(user: User): readonly string[] {
  const more = user['as-uid'] || user['as-groups']?.length || Object.keys(user['as-user-extra'] ?? {}).length > 0;
  return more && !user.as ? ['groups, a uid or extra to impersonate are given, but no user (--as)'] : [];
}
