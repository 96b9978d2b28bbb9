import {proxyVersion} from '../expect/cluster/service-ports.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import type {Check} from './check.ts';
import {kubeProxyTrouble, troubleText} from './kube-proxy-trouble.ts';

export const nodeNotRead: Check<'ST901'> = {
  code: 'ST901',
  name: 'node-not-read',
  severity: 'warning',
  summary: 'A node could not be read',
  remedy: 'Read the node with another --transport, or add its files to the bundle. --node selects other nodes.',
  // Silent if a part of the node was read: missing parts are ST902, and a truncated dump is ST506.
  *node({api, node, status, unread, view, config}) {
    if ((status.kind === 'unread' || status.kind === 'unsupported') && unread.length === 0) {
      const trouble = kubeProxyTrouble({api, node});
      const why = trouble.container === null ? null : troubleText(trouble);
      const remedy = status.remedy ?? (why === null ? null : trouble.remedy);
      yield {
        node: node.name,
        message: `${node.name} was not checked: ${status.reason}${why === null ? '' : `; of kube-proxy: ${why}`}`,
        ...(remedy === null ? {} : {remedy}),
      };
    }
    const standIn = status.kind === 'checked' ? view.standIn(proxyVersion(config)) : null;
    if (standIn !== null) yield {node: node.name, message: messageOf(node.name, config, standIn), remedy: remedyOf(standIn.read)};
  },
};

function messageOf(node: string, {version}: ProxyConfig, {used, read}: {readonly used: string; readonly read: string}): string {
  return `${node}: kube-proxy ${version.value.text} uses ${read}, which were not read: the node was checked by ${used} instead, which may differ`;
}

function remedyOf(kind: string): string {
  return `Add api/${kind.toLowerCase()}.json to the bundle: kubectl get ${kind.toLowerCase()} -A -o json`;
}
