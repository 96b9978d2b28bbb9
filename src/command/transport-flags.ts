import {Flags} from '@oclif/core';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import type {Transport} from '../collect/transport.ts';
import {defaultDebugImage, defaultDebugNamespace} from '../collect/transports/debug.ts';
import {type TransportName, transportNamed, transportNames, transports} from '../collect/transports/index.ts';
import {type SshAddressType, sshAddressTypes} from '../collect/transports/ssh-host.ts';

const helpGroup = 'TRANSPORT';
const ways = Object.entries(transports).map(([name, {summary}]) => `${name}: ${summary}`);

/** How nodes are reached and read. */
export const transportFlags = {
  transport: Flags.string({
    description: `how to reach the nodes; auto is exec and creates nothing (${ways.join('; ')})`,
    options: [...transportNames],
    default: 'auto',
    helpGroup,
  }),
  concurrency: Flags.integer({description: 'how many nodes are read at a time', min: 1, default: 16, helpValue: 'N', helpGroup}),
  'node-timeout': Flags.string({
    description: 'how long one node may take, such as 30s or 2m',
    default: '1m',
    helpValue: 'DURATION',
    helpGroup,
  }),
  'ssh-user': Flags.string({description: 'user to log in as', helpValue: 'USER', helpGroup}),
  'ssh-port': Flags.integer({description: "port of the nodes' ssh", min: 1, max: 65_535, helpValue: 'PORT', helpGroup}),
  'ssh-option': Flags.string({
    description: 'option for ssh, as in ssh_config: ProxyJump=bastion (repeatable)',
    multiple: true,
    multipleNonGreedy: true,
    helpValue: 'OPTION',
    helpGroup,
  }),
  'ssh-address': Flags.string({description: "which of the Node's addresses to connect to", options: [...sshAddressTypes], helpGroup}),
  sudo: Flags.boolean({description: 'run the commands by sudo (transports ssh and local)', helpGroup}),
  'debug-image': Flags.string({description: `image of debug pods (default ${defaultDebugImage})`, helpValue: 'IMAGE', helpGroup}),
  'debug-namespace': Flags.string({
    description: `namespace of debug pods (default ${defaultDebugNamespace})`,
    helpValue: 'NAMESPACE',
    helpGroup,
  }),
  'image-pull-secret': Flags.string({description: 'Secret to pull the image of debug pods with', helpValue: 'NAME', helpGroup}),
};

/** What oclif makes of `transportFlags`. */
export interface ParsedTransportFlags {
  readonly transport: string;
  readonly concurrency: number;
  readonly 'node-timeout': string;
  readonly 'ssh-user'?: string | undefined;
  readonly 'ssh-port'?: number | undefined;
  readonly 'ssh-option'?: readonly string[] | undefined;
  readonly 'ssh-address'?: string | undefined;
  readonly sudo?: boolean | undefined;
  readonly 'debug-image'?: string | undefined;
  readonly 'debug-namespace'?: string | undefined;
  readonly 'image-pull-secret'?: string | undefined;
  readonly node?: readonly string[] | undefined;
}

/** The transport that the flags ask for. `timeoutMs` is that of a node. */
export function transportOf(flags: ParsedTransportFlags, api: KubeApi, timeoutMs: number): Transport {
  const sudo = flags.sudo ?? false;
  return transportNamed(flags.transport as TransportName | 'auto', {
    api,
    debug: {
      // Time for the commands after the start, and for a pod to outlive the node's time only by little.
      ...{startTimeoutMs: timeoutMs, lifetimeMs: timeoutMs + 60_000},
      ...given('image', flags['debug-image']),
      ...given('namespace', flags['debug-namespace']),
      ...given('imagePullSecret', flags['image-pull-secret']),
    },
    ssh: {
      sudo,
      connectTimeoutMs: Math.min(timeoutMs, 10_000),
      ...given('user', flags['ssh-user']),
      ...given('port', flags['ssh-port']),
      ...given('options', flags['ssh-option']),
      ...given('addressType', flags['ssh-address'] as SshAddressType | undefined),
    },
    local: {sudo, onlyNode: flags.node?.length === 1},
  });
}

function given<Name extends string, T>(name: Name, value: T | undefined): {readonly [key in Name]?: T} {
  return (value === undefined ? {} : {[name]: value}) as {readonly [key in Name]?: T};
}
