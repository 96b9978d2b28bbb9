import {existsSync, readFileSync, statSync} from 'node:fs';
import {join} from 'node:path';
import {type ChosenContext, impersonatedUser} from './choose-context.ts';
import type {ConnectionFlags} from './connection-options.ts';

/** Where the kubelet mounts the service account of a pod. */
export const serviceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount';

/** The pod's own service account, as in client-go's inClusterClientConfig; null if this is not a pod. */
export function inClusterContext(environment: NodeJS.ProcessEnv, folder: string, flags: ConnectionFlags): ChosenContext | null {
  const host = environment['KUBERNETES_SERVICE_HOST'];
  const port = environment['KUBERNETES_SERVICE_PORT'];
  const token = join(folder, 'token');
  if (!host || !port || !existsSync(token) || statSync(token).isDirectory()) return null;
  const ca = flags.certificateAuthority || join(folder, 'ca.crt');
  return {
    inPod: true,
    contextName: '',
    userName: '',
    cluster: {
      server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
      ...(existsSync(ca) ? {'certificate-authority': ca} : {}),
    },
    user: {...(flags.token ? {token: flags.token} : {tokenFile: token}), ...impersonatedUser({}, flags)},
    namespace: flags.namespace || environment['POD_NAMESPACE'] || namespaceIn(join(folder, 'namespace')),
  };
}

function namespaceIn(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
}
