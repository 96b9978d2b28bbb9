import {namespacedName, someOf} from '../../model/text.ts';
import type {ServiceObject} from '../../model/api-objects.ts';
import type {Advice} from '../../model/preview.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import type {NodeSetup} from '../node-setup.ts';

/** One node of the change. */
export interface AdviceCase {
  readonly setup: NodeSetup;
  readonly configAfter: ProxyConfig;
}

/** Advice about one node; its texts are the same for all nodes that it concerns. */
export interface NodeAdvice extends Omit<Advice, 'nodes'> {
  /** It concerns the cluster, not this node. */
  readonly ofCluster?: true;
}

/** External IPs and load-balancer IPs of a Service. */
export function externalAddresses({spec, status}: ServiceObject): readonly string[] {
  return [...(spec?.externalIPs ?? []), ...(status?.loadBalancer?.ingress?.flatMap(({ip}) => ip ?? []) ?? [])];
}

/** Up to three names. */
export function namesOf(services: readonly ServiceObject[]): string {
  return someOf(
    services.map(({metadata}) => namespacedName(metadata)),
    {max: 3, noun: 'Service'},
  );
}
