import {kubeProxyTrouble, troubleText} from '../checks/kube-proxy-trouble.ts';
import type {ApiObjects, NodeDump, UnreadNode} from '../model/snapshot.ts';
import type {NodeResult} from './diagnose-node.ts';
import {problemFinding} from './problem-finding.ts';

/** `dump`: what was read of it, which may be the log of its kube-proxy. */
export function unreadNode({name, reason: failure, remedy}: UnreadNode, api: ApiObjects, dump?: NodeDump): NodeResult {
  const trouble = kubeProxyTrouble({api, node: dump ?? {name}});
  const text = trouble.container === null ? null : troubleText(trouble);
  const reason = text === null ? failure : `${failure}; of kube-proxy: ${text}`;
  return {
    report: {name, status: 'unread', reason, families: [], rules: 0, chains: 0, settings: {}},
    findings: [
      problemFinding({
        node: name,
        message: `${name} was not checked: ${reason}`,
        remedy: text === null ? remedy : (trouble.remedy ?? remedy),
      }),
    ],
    proxy: null,
    traces: [],
  };
}
