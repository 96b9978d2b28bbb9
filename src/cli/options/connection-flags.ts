import {Flags} from '@oclif/core';
import {repeatable} from './flags.ts';

const helpGroup = 'CLUSTER';

/** kubectl's connection flags. `-n` is one of the flags for Services. */
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
    ...repeatable,
    helpGroup,
  }),
  'as-uid': Flags.string({description: 'UID to impersonate', helpValue: 'UID', helpGroup}),
  'as-user-extra': Flags.string({
    description: 'extra of the user to impersonate (repeatable)',
    helpValue: 'KEY=VALUE',
    ...repeatable,
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
