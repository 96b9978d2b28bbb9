import {families} from '../../model/address.ts';
import type {PodWay} from '../../model/node-result.ts';
import {vxlansUp} from '../../model/node/node-facts.ts';
import {commandLine, plural, someOf} from '../../model/text.ts';
import type {NodeCheckContext} from '../check-types.ts';
import {check} from '../catalog.ts';
import {run} from '../commands/commands.ts';
import {routedPods} from './reverse-path.ts';
import {deviceTo, podAddresses, familiesOnNode, podsAstray} from './node-paths.ts';

export const mtuDiffers = check('ST613', {
  *nodes(ways) {
    const groups = [...Map.groupBy(ways, ({mtu}) => mtu).values()];
    // Of two groups of one size, the smaller packets are what does not fit.
    const usual = groups.toSorted((a, b) => b.length - a.length || (b[0]?.mtu ?? 0) - (a[0]?.mtu ?? 0))[0] ?? [];
    for (const {node, mtu, device} of groups.filter(group => group !== usual).flat()) {
      const others = `${plural(usual.length, 'other node')} (${someOf(usual.map(other => other.node))})`;
      const [usualMtu = 0, isSmaller] = [usual[0]?.mtu, mtu < (usual[0]?.mtu ?? 0)];
      const lost = isSmaller ? 'large packets to its pods' : 'large packets of its pods and of the node itself to the others';
      const message = `the MTU between pods is ${mtu} (${device}), and ${usualMtu} on ${others}: ${lost} may be fragmented or lost, while small ones arrive`;
      yield {node, message, ...run(commandLine`ip -d link show ${device}`)};
    }
  },
});

/**
 * How large packets may be: by the interface to pods on other nodes, and by that to a pod of its own, which has the MTU of the pod. Null if
 * the node knows no pod on another node, or if routes and interfaces were not read.
 */
export function podWay(context: NodeCheckContext): PodWay | null {
  const {network} = context.facts;
  const {links} = network;
  const [family] = familiesOnNode(context);
  if (links === null || family === undefined) return null;
  const pods = podAddresses(context, family);
  const node = context.node.name;
  const vxlans = vxlansUp(network) ?? [];
  const mtuTo = (address: string | undefined): PodWay | null => {
    const device = address === undefined ? null : deviceTo(context, address);
    const mtu = links.find(({name}) => name === device)?.mtu ?? null;
    const tunnel = vxlans.find(({name}) => name === device) ?? null;
    return device === null || mtu === null ? null : {node, mtu, device, tunnel, vxlans};
  };
  // Where packets to pods take the default gateway by mistake, their size is not what is wrong.
  const astray = new Set(podsAstray(context, family).map(one => one.node));
  const elsewhere = [...pods].find(([name, own]) => name !== node && own.length > 0 && !astray.has(name))?.[1][0];
  const [out, own] = [elsewhere, pods.get(node)?.[0]].map(pod => mtuTo(pod?.address.text));
  if (!out) return null;
  const routed = families.flatMap(each => routedPods(context, each) ?? []);
  return {...out, ...(own && own.mtu < out.mtu ? {...own, tunnel: out.tunnel} : {}), routed};
}
