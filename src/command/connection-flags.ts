import {Errors, Flags} from '@oclif/core';
import type {ConnectionFlags} from '../collect/kube/connection-flags.ts';

const helpGroup = 'CLUSTER';

/** kubectl's own flags that say which cluster and as whom; `-n` is among those that say which Services. */
export const connectionFlags = {
  kubeconfig: Flags.string({description: 'path of the kubeconfig', helpValue: 'FILE', helpGroup}),
  context: Flags.string({description: 'context of the kubeconfig', helpValue: 'NAME', helpGroup}),
  cluster: Flags.string({description: 'cluster of the kubeconfig', helpValue: 'NAME', helpGroup}),
  user: Flags.string({description: 'user of the kubeconfig', helpValue: 'NAME', helpGroup}),
  server: Flags.string({char: 's', description: 'address of the API server', helpValue: 'URL', helpGroup}),
  token: Flags.string({description: 'bearer token', helpValue: 'TOKEN', helpGroup}),
  as: Flags.string({description: 'user to impersonate', helpValue: 'USER', helpGroup}),
  'as-group': Flags.string({
    description: 'group to impersonate (repeatable)',
    helpValue: 'GROUP',
    multiple: true,
    multipleNonGreedy: true,
    helpGroup,
  }),
  'as-uid': Flags.string({description: 'UID to impersonate', helpValue: 'UID', helpGroup}),
  'as-user-extra': Flags.string({
    description: 'extra of the user to impersonate (repeatable)',
    helpValue: 'KEY=VALUE',
    multiple: true,
    multipleNonGreedy: true,
    helpGroup,
  }),
  'certificate-authority': Flags.string({description: "certificate of the API server's authority", helpValue: 'FILE', helpGroup}),
  'client-certificate': Flags.string({description: 'client certificate', helpValue: 'FILE', helpGroup}),
  'client-key': Flags.string({description: 'key of the client certificate', helpValue: 'FILE', helpGroup}),
  'insecure-skip-tls-verify': Flags.boolean({description: "do not check the API server's certificate", allowNo: true, helpGroup}),
  'tls-server-name': Flags.string({description: "name that the API server's certificate must have", helpValue: 'NAME', helpGroup}),
  'proxy-url': Flags.string({description: 'proxy to the API server', helpValue: 'URL', helpGroup}),
  'request-timeout': Flags.string({
    description: 'how long a single request may take, such as 1s or 2m; 0 for no limit',
    helpValue: 'DURATION',
    default: '0',
    helpGroup,
  }),
};

/** What oclif makes of `connectionFlags`, with `-n`. */
export interface ParsedConnectionFlags
  extends Pick<ConnectionFlags, 'kubeconfig' | 'context' | 'cluster' | 'user' | 'namespace' | 'server' | 'token' | 'as'> {
  readonly 'as-group'?: readonly string[] | undefined;
  readonly 'as-uid'?: string | undefined;
  readonly 'as-user-extra'?: readonly string[] | undefined;
  readonly 'certificate-authority'?: string | undefined;
  readonly 'client-certificate'?: string | undefined;
  readonly 'client-key'?: string | undefined;
  readonly 'insecure-skip-tls-verify'?: boolean | undefined;
  readonly 'tls-server-name'?: string | undefined;
  readonly 'proxy-url'?: string | undefined;
  readonly 'request-timeout'?: string | undefined;
}

export function asConnectionFlags(flags: ParsedConnectionFlags): ConnectionFlags {
  const {kubeconfig, context, cluster, user, namespace, server, token, as} = flags;
  return {
    ...{kubeconfig, context, cluster, user, namespace, server, token, as},
    asGroups: flags['as-group'],
    asUid: flags['as-uid'],
    asUserExtra: flags['as-user-extra'] === undefined ? undefined : extraOf(flags['as-user-extra']),
    certificateAuthority: flags['certificate-authority'],
    clientCertificate: flags['client-certificate'],
    clientKey: flags['client-key'],
    insecureSkipTlsVerify: flags['insecure-skip-tls-verify'],
    tlsServerName: flags['tls-server-name'],
    proxyUrl: flags['proxy-url'],
  };
}

/** The same key may be given several times. kubectl passes over what is no KEY=VALUE; whoever wrote it meant something. */
function extraOf(pairs: readonly string[]): Readonly<Record<string, readonly string[]>> {
  const extra: Record<string, string[]> = {};
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    if (at < 1) throw new Errors.CLIError(`--as-user-extra ${pair} is no KEY=VALUE`, {exit: 2});
    const key = pair.slice(0, at);
    extra[key] = [...(extra[key] ?? []), pair.slice(at + 1)];
  }
  return extra;
}
