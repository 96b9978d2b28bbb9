import type {UnreadNode} from '../model/snapshot.ts';
import type {NodeResult} from './diagnose-node.ts';
import {problemFinding} from './problem-finding.ts';

export function unreadNode({name, reason, remedy}: UnreadNode): NodeResult {
  return {
    report: {name, status: 'unread', reason, families: [], rules: 0, chains: 0, settings: {}},
    findings: [problemFinding({node: name, message: `${name} was not checked: ${reason}`, remedy})],
    proxy: null,
    traces: [],
  };
}
