import type {Permission} from '../../model/access.ts';
import {kubeProxyPorts} from '../node/kube-proxy-pages.ts';

/** For running commands in pods of a namespace. */
export function execPermissions(namespace: string): readonly Permission[] {
  const exec = {group: '', resource: 'pods', subresource: 'exec', namespace, needed: true} as const;
  return [
    {...exec, verb: 'get', purpose: 'exec (a WebSocket begins with a GET)', without: 'no node is read'},
    // Kubernetes 1.35 requires both.
    {...exec, verb: 'create', purpose: 'exec', without: 'no node is read (Kubernetes before 1.35 does not ask for it)'},
  ];
}

/** For reading kube-proxy's pages through the API server: images of kube-proxy have no HTTP client. */
export const nodeProxyPermission: Permission = {
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

/** A Role can limit it to these names: the node and the port, as they stand in the path of the request. */
export function nodeProxyNames(node: string): readonly string[] {
  return kubeProxyPorts.map(port => `${node}:${port}`);
}

/** For creating a pod on each node, running commands in it, and deleting it. */
export function debugPermissions(namespace: string): readonly Permission[] {
  const pods = {group: '', resource: 'pods', namespace, needed: true} as const;
  return [
    {...pods, verb: 'create', purpose: 'a debug pod on each node', without: 'no node is read'},
    {...pods, verb: 'get', purpose: 'to see the debug pod start', without: 'no node is read'},
    {...pods, verb: 'delete', purpose: 'to delete the debug pod', without: 'debug pods stay until their time is up'},
    {...pods, verb: 'list', needed: false, purpose: 'debug pods that a killed run left', without: 'they stay until their time is up'},
    ...execPermissions(namespace),
  ];
}
