import type {KubeApi} from '../../collect/kube/kube-api.ts';
import type {Transport} from '../../collect/node/transport.ts';
import {type TransportName, transportNamed} from '../../collect/transports/index.ts';
import type {SshAddressType} from '../../collect/transports/ssh.ts';

/** The parsed values of `transportFlags`. */
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

/** The transport that the flags choose. `timeoutMs` is the timeout for one node. */
export function transportOf(flags: ParsedTransportFlags, api: KubeApi, timeoutMs: number): Transport {
  const sudo = flags.sudo ?? false;
  return transportNamed(flags.transport as TransportName | 'auto', {
    api,
    exec: {lifetimeMs: lifetimeOf(timeoutMs)},
    debug: {
      startTimeoutMs: timeoutMs,
      lifetimeMs: lifetimeOf(timeoutMs),
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

/** Leaves time for the commands after the start, and lets what runs on a node outlive the node's timeout only briefly. */
export function lifetimeOf(timeoutMs: number): number {
  return timeoutMs + 60_000;
}

function given<Name extends string, T>(name: Name, value: T | undefined): {readonly [key in Name]?: T} {
  return (value === undefined ? {} : {[name]: value}) as {readonly [key in Name]?: T};
}
