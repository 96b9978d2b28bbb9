import {ClusterView} from '../src/expect/cluster/cluster-view.ts';
import {expectIpvs} from '../src/expect/ipvs/expected-ipvs.ts';
import {setName, setTypes} from '../src/expect/ipvs/ipvs-sets.ts';
import {nodeFacts} from '../src/expect/read-node-facts.ts';
import {resolveProxyConfig} from '../src/expect/resolve-proxy-config.ts';
import type {Family} from '../src/model/address.ts';
import type {ApiObjects, NodeDump} from '../src/model/snapshot.ts';
import type {Random} from './bench/random.ts';
import {iptablesSave} from './rendered-dump.ts';

/** What kube-proxy in IPVS mode sets up in one family, as the node's programs print it. */
export interface RenderedIpvs {
  /** `ipvsadm-save -n`. */
  readonly servers: string;
  /** `ipset save`. */
  readonly sets: string;
  /** The addresses of kube-ipvs0. */
  readonly bound: readonly string[];
  /** `iptables-save`. */
  readonly rules: string;
}

export function renderedIpvs(
  api: ApiObjects,
  family: Family,
  {node, random}: {readonly node: NodeDump; readonly random: Random},
): RenderedIpvs {
  const {config} = resolveProxyConfig(node, api, {});
  const expected = expectIpvs({view: new ClusterView(api), config, facts: nodeFacts(node, api), family, bound: []});
  const servers = random.shuffle([...expected.servers.values()]).flatMap(([first]) => (first === undefined ? [] : [first.server]));
  const sets = [...expected.members].map(([role, members]) => {
    const name = setName(role, family);
    const type = setTypes[role];
    const size = type === 'bitmap:port' ? 'range 0-65535' : `family ${family === 'IPv4' ? 'inet' : 'inet6'} hashsize 1024 maxelem 65536`;
    return `create ${name} ${type} ${size}\n${[...members.keys()].map(text => `add ${name} ${text}\n`).join('')}`;
  });
  return {
    servers: servers.flatMap(({text, realServers}) => [text, ...realServers.map(real => real.text)].map(line => `${line}\n`)).join(''),
    sets: sets.join(''),
    bound: [...expected.bound.keys()],
    rules: iptablesSave(
      {
        ...{family, ports: expected.ports, baseRules: () => expected.baseRules},
        rulesOf: owner => ({
          own: new Map(),
          shared: expected.outFilter(owner).map(text => ({table: 'filter', chain: 'KUBE-IPVS-OUT-FILTER', text})),
        }),
      },
      random,
    ),
  };
}
