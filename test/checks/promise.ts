import type {ApiObjects} from '../../src/model/snapshot.ts';
import type {NetworkPolicyObject, NodeObject, ServiceSpec, SliceEndpoint} from '../../src/model/api-objects.ts';
import {seededRandom} from '../bench/random.ts';
import {apiObjects, endpoint, type LoadBalancerIngress, nodeDump, service, slice} from '../cluster.ts';
import {type WrittenMode, writtenNode} from '../rendered-node.ts';
import {type FindingSummary, findingsOf, summaryOf} from '../scenario.ts';

export interface PromiseCase {
  readonly mode?: WrittenMode;
  /** `1.36.2` unless said otherwise. */
  readonly version?: string;
  /** The version is known from that of the kubelet alone. */
  readonly isGuessed?: true;
  /** Settings of kube-proxy; pods are told by clusterCIDR 10.244.0.0/16 unless said otherwise. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Of shop/web, which is of type LoadBalancer unless said otherwise. */
  readonly spec?: ServiceSpec;
  readonly ingress?: readonly LoadBalancerIngress[];
  readonly endpoints?: readonly SliceEndpoint[];
  readonly networkPolicies?: readonly NetworkPolicyObject[];
}

export const here = endpoint('10.244.1.5', 'node-a');
export const there = endpoint('10.244.2.5', 'node-b');

/** What is found of the promise on node-a, whose rules are those that its kube-proxy writes with these settings. */
export function promiseFindings(given: PromiseCase): readonly FindingSummary[] {
  const {mode = 'iptables', version = '1.36.2', config = {clusterCIDR: '10.244.0.0/16'}, networkPolicies} = given;
  const api: ApiObjects = {...objectsOf(given), ...(networkPolicies === undefined ? {} : {networkPolicies})};
  const node = nodeDump('node-a', {
    ...(given.isGuessed === true ? {} : {'kube-proxy-version': `v${version}\n`}),
    'kube-proxy-config.yaml': JSON.stringify({
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      mode,
      ...config,
    }),
    'addresses.json': JSON.stringify([
      {ifname: 'lo', addr_info: [{local: '127.0.0.1'}]},
      {ifname: 'eth0', addr_info: [{local: '172.18.0.11'}, {local: '198.51.100.11'}]},
    ]),
  });
  const nodes = [writtenNode(node, api, {mode, random: seededRandom(1)})];
  return findingsOf({origin: 'written', api, problems: [], nodes})
    .filter(({code}) => /^ST7|^ST50[47]$|^ST[23]/.test(code))
    .map(summaryOf);
}

function objectsOf({spec = {}, ingress = [{ip: '192.0.2.10'}], endpoints = [here, there], version = ''}: PromiseCase): ApiObjects {
  const addresses = {clusterIP: '10.96.0.10', clusterIPs: ['10.96.0.10'], ipFamilies: ['IPv4']};
  const usual = {type: 'LoadBalancer', ports: [{port: 80, nodePort: 30080}], selector: {app: 'web'}};
  return apiObjects({
    services: [service('shop/web', {...usual, ...addresses, ...spec}, {ingress})],
    endpointSlices: [slice('shop/web', endpoints)],
    nodes: ['node-a', 'node-b'].map((name, index) => nodeObject(name, index, version)),
  });
}

function nodeObject(name: string, index: number, version: string): NodeObject {
  const addresses = [
    {type: 'InternalIP', address: `172.18.0.${11 + index}`},
    {type: 'ExternalIP', address: `198.51.100.${11 + index}`},
  ];
  return {
    metadata: {name},
    spec: {podCIDRs: [`10.244.${1 + index}.0/24`]},
    status: {addresses, nodeInfo: {kubeletVersion: `v${version}`} as NonNullable<NodeObject['status']>['nodeInfo'] & object},
  };
}
