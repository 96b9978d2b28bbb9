/** Where the network plugin gives out addresses, Nodes have no podCIDR: pods, endpoints and routes tell who is on a node. */
import {expect, test} from 'vitest';
import {ownPods} from '../../../src/expect/node-context.ts';
import {noNetworkFacts} from '../../../src/model/node/node-facts.ts';
import {parseLinks, parseRoutes} from '../../../src/parse/network-facts.ts';
import {withRule} from '../../editable-dump.ts';
import {scenario, type Scenario} from '../../scenario.ts';

/** Node-a with one more rule, and no Node with a podCIDR. */
async function found(
  rule: readonly [table: string, rule: string],
  change: (given: Scenario) => void = () => {},
): Promise<readonly string[]> {
  const given = await scenario('healthy/1.36-iptables');
  given.api(({nodes}) => ({nodes: (nodes ?? []).map(node => ({...node, spec: {}}))}));
  change(given);
  const messages = (): readonly string[] =>
    given.findings({nodes: node => node === 'node-a'}).map(({code, severity, message}) => `${code} ${severity} ${message}`);
  const before = messages();
  given.file('node-a', 'iptables-save', withRule(...rule)(given.rules('node-a').toString()));
  return messages().filter(message => !before.includes(message));
}

const dropped = ['filter', '-A FORWARD -s 10.244.11.0/24 -j DROP'] as const;

test('a rule about the pods of a node is an error, although no Node has a podCIDR', async () => {
  expect(await found(dropped)).toContainEqual(expect.stringMatching(/^ST303 error packets from a pod of this node to the cluster IP/));
});

test('endpoints tell the pods of a node where pods were not read', async () => {
  const messages = await found(dropped, given => given.api(() => ({pods: null})));
  expect(messages).toContainEqual(expect.stringMatching(/^ST303 error packets from a pod of this node to the cluster IP/));
});

test('a host with a route of its own into another namespace is a pod of the node; those of its own network are not', () => {
  const links = [
    {ifname: 'eth0', ifindex: 2, link_netnsid: 0},
    {ifname: 'cali4', ifindex: 3, link_netnsid: 1},
    {ifname: 'docker0', ifindex: 4},
  ];
  const routes = [
    {dst: '10.1.2.3', dev: 'cali4', scope: 'link'},
    {dst: '10.1.2.4', dev: 'eth0', scope: 'link'},
    {dst: '10.1.2.5', dev: 'cali4', gateway: '10.1.2.3'},
    {dst: '10.1.3.0/24', dev: 'cali4', scope: 'link'},
    {dst: '172.17.0.2', dev: 'docker0', scope: 'link'},
  ];
  const network = {
    ...noNetworkFacts,
    links: parseLinks(JSON.stringify(links)),
    routes: parseRoutes(JSON.stringify(routes)),
  };
  const facts = {
    ...{name: 'node-a', addresses: ['172.18.0.11'], allAddresses: true, hostIPs: ['172.18.0.11'], podCIDRs: ['fd00::/64']},
    ...{zone: null, labels: {}, primaryInterface: 'eth0', network},
  };
  const api = {services: [], endpointSlices: [], nodes: [], pods: []} as never;
  expect(ownPods(facts, api, 'IPv4')).toEqual(['10.1.2.3']);
  expect(ownPods(facts, api, 'IPv6')).toEqual([]);
});
