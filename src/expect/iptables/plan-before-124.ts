import {type NodeContext, nodePortDestinations} from '../node-context.ts';
import type {ProtocolText} from './rule-text.ts';
import type {PortOnNode} from './service-rules.ts';
import {nodePortsNeedAddress} from './iptables-versions.ts';

/** What the rules of one Service port are written from, up to kube-proxy 1.23. */
export interface PlanBefore124 {
  readonly item: PortOnNode;
  readonly context: NodeContext;
  readonly text: ProtocolText;
  /** Where traffic from outside goes: KUBE-XLB under Local policy, else KUBE-SVC. */
  readonly external: string;
}

/** Whether rules of its node port are written at all. */
export function writesNodePort({item: {port}, context}: PlanBefore124): boolean {
  return port.nodePort !== 0 && !(nodePortsNeedAddress(context.version) && nodePortDestinations(context)?.length === 0);
}
