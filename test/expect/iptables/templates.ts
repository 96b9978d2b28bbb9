import type {ServiceSpec} from '../../../src/model/api-objects.ts';
import {endpoint} from '../../cluster.ts';

/**
 * The rules of one Service port, `shop/web:http` at 10.96.1.1:80 with node port 30080, as kube-proxy 1.25 and later write them
 * (sections 3.1 and 3.3 of the reference): the letters are those of the reference.
 */
export const remark = (text: string): string => `-m comment --comment "${text}"`;

const named = 'shop/web:http';
const refused = '-j REJECT --reject-with icmp-port-unreachable';

const verdicts = {
  reject: [`${named} has no endpoints`, refused],
  drop: [`${named} has no local endpoints`, '-j DROP'],
} as const;

export type Verdict = keyof typeof verdicts;

export const a1 = (chain: string): string => `-d 10.96.1.1/32 -p tcp ${remark(`${named} cluster IP`)} -m tcp --dport 80 -j ${chain}`;
export const a2 = (address: string): string => `-d ${address}/32 -p tcp ${remark(`${named} external IP`)} -m tcp --dport 80 -j EXT`;
export const a3 = (address: string, chain: string): string =>
  `-d ${address}/32 -p tcp ${remark(`${named} loadbalancer IP`)} -m tcp --dport 80 -j ${chain}`;

/** B1, B2 and B4: an address that is answered in the filter table. */
export const refusal = (address: string, verdict: Verdict): string =>
  `-d ${address}/32 -p tcp ${remark(verdicts[verdict][0])} -m tcp --dport 80 ${verdicts[verdict][1]}`;
export const b3 = (address: string): string =>
  `-d ${address}/32 -p tcp ${remark(`${named} traffic not accepted by FW`)} -m tcp --dport 80 -j DROP`;
export const b5 = (verdict: Verdict): string =>
  `-p tcp ${remark(verdicts[verdict][0])} -m addrtype --dst-type LOCAL -m tcp --dport 30080 ${verdicts[verdict][1]}`;
export const b6 = (port: number): string => `-p tcp ${remark(`${named} health check node port`)} -m tcp --dport ${port} -j ACCEPT`;

export const c1 = `-p tcp ${remark(named)} -m tcp --dport 30080 -j EXT`;

export const d1 = `! -s 10.244.0.0/16 -d 10.96.1.1/32 -p tcp ${remark(`${named} cluster IP`)} -m tcp --dport 80 -j KUBE-MARK-MASQ`;

const destinations = `${named} external destinations`;

/** D2 under Cluster policy. */
export const external = [`${remark(`masquerade traffic for ${destinations}`)} -j KUBE-MARK-MASQ`, '-j SVC'];

/** D2 under Local policy, up to the rule that leads to the endpoints of the node. */
export const externalLocal = [
  `-s 10.244.0.0/16 ${remark(`pod traffic for ${destinations}`)} -j SVC`,
  `${remark(`masquerade LOCAL traffic for ${destinations}`)} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`,
  `${remark(`route LOCAL traffic for ${destinations}`)} -m addrtype --src-type LOCAL -j SVC`,
];

export const d3 = (source: string): string => `-s ${source} ${remark(`${named} loadbalancer IP`)} -j EXT`;
export const d3Last = remark(`other traffic to ${named} will be dropped by KUBE-PROXY-FIREWALL`);

const probabilities = ['', '', '0.50000000000', '0.33333333349', '0.25000000000'];

/** D4 without affinity. */
export function d4(...endpoints: readonly string[]): readonly string[] {
  return endpoints.map((endpoint, index) => {
    const left = endpoints.length - index;
    const chance = left === 1 ? '' : ` -m statistic --mode random --probability ${probabilities[left]}`;
    return `${remark(`${named} -> ${endpoint}`)}${chance} -j SEP ${endpoint}`;
  });
}

/** D5: the chain of each endpoint. */
export function d5(...endpoints: readonly string[]): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(
    endpoints.map(endpoint => [
      `SEP ${endpoint}`,
      [
        `-s ${endpoint.split(':')[0]}/32 ${remark(named)} -j KUBE-MARK-MASQ`,
        `-p tcp ${remark(named)} -m tcp -j DNAT --to-destination ${endpoint}`,
      ],
    ]),
  );
}

/** Its endpoints, on this node and on another one. */
export const here = endpoint('10.244.1.5', 'node-a');
export const there = endpoint('10.244.2.7', 'node-b');
export const local = '10.244.1.5:8080';
export const remote = '10.244.2.7:8080';

export const clusterIP: ServiceSpec = {clusterIP: '10.96.1.1', ports: [{name: 'http', port: 80, protocol: 'TCP'}]};
export const nodePort: ServiceSpec = {...clusterIP, type: 'NodePort', ports: [{name: 'http', port: 80, protocol: 'TCP', nodePort: 30080}]};
export const localOut: ServiceSpec = {externalTrafficPolicy: 'Local'};
export const vip = [{ip: '198.51.100.7'}];
