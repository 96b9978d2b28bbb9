import type {Permission} from '../../model/permission.ts';
import type {KubeApi} from '../kube/kube-api.ts';
import type {Transport} from '../node/transport.ts';
import {type DebugOptions, debugTransport} from './debug.ts';
import {dockerTransport, type LocalOptions, localTransport} from './local.ts';
import {type ExecOptions, execTransport} from './exec.ts';
import {type SshOptions, sshTransport} from './ssh.ts';

/** What transports depend on; each uses its own part. */
interface TransportSettings {
  readonly api: KubeApi;
  readonly exec?: ExecOptions;
  readonly debug?: DebugOptions;
  readonly ssh?: SshOptions;
  readonly local?: LocalOptions;
}

interface TransportEntry {
  /** For the help text and the docs. */
  readonly summary: string;
  /** Nodes are reached through pods that already run there. */
  readonly usesPods: boolean;
  /** The permissions that it needs, besides those of every run. */
  readonly permissions: (settings: {readonly debugNamespace: string}) => readonly Permission[];
  make(settings: TransportSettings): Transport;
}

/** The registry of transports. */
export const transports = {
  exec: {
    summary: 'a pod that already runs on the node, in its network: kube-proxy, else a CNI agent',
    usesPods: true,
    permissions: () => [...execPermissions('kube-system'), nodeProxyPermission],
    make: ({api, exec}) => execTransport(api, exec),
  },
  debug: {
    summary: 'a privileged pod, made for this and deleted afterwards',
    usesPods: false,
    permissions: ({debugNamespace}) => debugPermissions(debugNamespace),
    make: ({api, debug}) => debugTransport(api, debug),
  },
  ssh: {
    summary: "the system's ssh, with your configuration, agent, jump hosts and known hosts",
    usesPods: false,
    permissions: () => [],
    make: ({ssh}) => sshTransport(ssh),
  },
  docker: {
    summary: 'nodes that are containers of this machine: kind, minikube',
    usesPods: false,
    permissions: () => [],
    make: () => dockerTransport(),
  },
  local: {summary: 'this machine is the node', usesPods: false, permissions: () => [], make: ({local}) => localTransport(local)},
} as const satisfies Readonly<Record<string, TransportEntry>>;

export type TransportName = keyof typeof transports;

/** The transports of `auto`: they create nothing. */
export const automatic: TransportName = 'exec';

/** The values of `--transport`. */
export const transportNames: readonly string[] = ['auto', ...Object.keys(transports)];

export function transportNamed(name: TransportName | 'auto', settings: TransportSettings): Transport {
  return transports[name === 'auto' ? automatic : name].make(settings);
}

/** For running commands in pods of a namespace. */
function execPermissions(namespace: string): readonly Permission[] {
  const exec = {group: '', resource: 'pods', subresource: 'exec', namespace, needed: true} as const;
  return [
    {...exec, verb: 'get', purpose: 'exec (a WebSocket begins with a GET)', without: 'no node is read'},
    // Kubernetes 1.35 requires both.
    {...exec, verb: 'create', purpose: 'exec', without: 'no node is read (Kubernetes before 1.35 does not ask for it)'},
  ];
}

/** For reading kube-proxy's pages through the API server: images of kube-proxy have no HTTP client. */
const nodeProxyPermission: Permission = {
  verb: 'get',
  group: '',
  resource: 'nodes',
  subresource: 'proxy',
  namespace: null,
  needed: false,
  purpose: "kube-proxy's health, metrics and settings",
  without: 'ST505 does not know whether kube-proxy is healthy',
  opens: 'the kubelets: whoever has it can run commands in every pod',
};

/** For creating a pod on each node, running commands in it, and deleting it. */
function debugPermissions(namespace: string): readonly Permission[] {
  const pods = {group: '', resource: 'pods', namespace, needed: true} as const;
  return [
    {...pods, verb: 'create', purpose: 'a debug pod on each node', without: 'no node is read'},
    {...pods, verb: 'get', purpose: 'to see the debug pod start', without: 'no node is read'},
    {...pods, verb: 'delete', purpose: 'to delete the debug pod', without: 'debug pods stay until their time is up'},
    {...pods, verb: 'list', needed: false, purpose: 'debug pods that a killed run left', without: 'they stay until their time is up'},
    ...execPermissions(namespace),
  ];
}
