import {endpointChain, hostPort} from './chain-names.ts';
import type {Endpoint, Family, Service, ServicePort} from './model.ts';
import type {Chain} from './rule-set.ts';

/** One Service port in one family, as its rules need it. */
export interface PortContext {
  service: Service;
  port: ServicePort;
  family: Family;
  name: string;
  /** Past 1,000 endpoints in a family, kube-proxy leaves the comments of these rules out. */
  large: boolean;
}

interface Target {
  chain: string;
  /** "address:port". */
  text: string;
}

/** The rules that spread a chain's traffic over endpoints: sticky clients first, then by chance. */
export function balancingRules(chain: string, endpoints: readonly Endpoint[], context: PortContext): string[] {
  const targets = inKubeProxyOrder(endpoints, context);
  const seconds = context.service.affinitySeconds;
  const sticky = seconds === 0 ? [] : targets.map(target => stickyRule(chain, target, context));
  const spread = targets.map((target, index) => {
    const left = targets.length - index;
    const chance = left === 1 ? '' : ` -m statistic --mode random --probability ${printedProbability(left)}`;
    return `-A ${chain}${arrowComment(target, context)}${chance} -j ${target.chain}`;
  });
  return [...sticky, ...spread];
}

function stickyRule(chain: string, target: Target, context: PortContext): string {
  const recent = `--rcheck --seconds ${context.service.affinitySeconds} --reap`;
  const list = `--name ${target.chain} --mask ${fullMask(context.family)} --rsource`;
  return `-A ${chain}${arrowComment(target, context)} -m recent ${recent} ${list} -j ${target.chain}`;
}

/** The chain of one endpoint: masquerade what the endpoint sends to itself, then rewrite. */
export function endpointChainOf(endpoint: Endpoint, context: PortContext): Chain {
  const target = targetOf(endpoint, context);
  return {name: target.chain, rules: () => endpointRules(endpoint.address, target, context)};
}

function endpointRules(address: string, target: Target, context: PortContext): string[] {
  const {family, large, name, port, service} = context;
  const protocol = port.protocol.toLowerCase();
  const comment = large ? '' : ` -m comment --comment "${name}"`;
  const bits = family === 'IPv4' ? 32 : 128;
  const remember = service.affinitySeconds === 0 ? '' : ` -m recent --set --name ${target.chain} --mask ${fullMask(family)} --rsource`;
  return [
    `-A ${target.chain} -s ${address}/${bits}${comment} -j KUBE-MARK-MASQ`,
    `-A ${target.chain} -p ${protocol}${comment}${remember} -m ${protocol} -j DNAT --to-destination ${target.text}`,
  ];
}

function targetOf(endpoint: Endpoint, {family, name, port}: PortContext): Target {
  const text = hostPort(family, endpoint.address, port.targetPort);
  return {chain: endpointChain(name, port, text), text};
}

/** kube-proxy sorts endpoints as text: 10.0.0.10:80 comes before 10.0.0.2:80. */
function inKubeProxyOrder(endpoints: readonly Endpoint[], context: PortContext): Target[] {
  return endpoints.map(endpoint => targetOf(endpoint, context)).sort((a, b) => (a.text < b.text ? -1 : 1));
}

function arrowComment(target: Target, {large, name}: PortContext): string {
  return large ? '' : ` -m comment --comment "${name} -> ${target.text}"`;
}

function fullMask(family: Family): string {
  return family === 'IPv4' ? '255.255.255.255' : 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff';
}

/**
 * kube-proxy writes 1/n with ten decimals, the kernel keeps the nearest multiple
 * of 2^-31, and iptables-save prints that with eleven.
 */
function printedProbability(n: number): string {
  const kept = Math.floor(Number((1 / n).toFixed(10)) * 2 ** 31 + 0.5);
  return (kept / 2 ** 31).toFixed(11);
}
