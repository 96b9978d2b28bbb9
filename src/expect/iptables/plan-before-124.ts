import {type NodeContext, nodePortDestinations} from '../node-context.ts';
import type {ProtocolText} from './rule-text.ts';
import type {PortOnNode} from './service-rules.ts';
import {nodePortsNeedAddress} from './iptables-versions.ts';

/** The input for the rules of one Service port, up to kube-proxy 1.23. */
export interface PlanBefore124 {
  readonly item: PortOnNode;
  readonly context: NodeContext;
  readonly text: ProtocolText;
  /** The chain for external traffic: KUBE-XLB under the Local policy, otherwise KUBE-SVC. */
  readonly external: string;
}

/** Whether rules for its node port are written at all. */
export function writesNodePort({item: {port}, context}: PlanBefore124): boolean {
  return port.nodePort !== 0 && !(nodePortsNeedAddress(context.version) && nodePortDestinations(context)?.length === 0);
}
