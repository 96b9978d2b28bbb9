/** One Service port of a group is walked through third-party rules. A rule that treats one of them differently must be found all the same, whichever it is. */
import {describe, expect, test} from 'vitest';
import type {Finding} from '../../../src/model/finding.ts';
import type {Snapshot} from '../../../src/model/snapshot.ts';
import {seededRandom} from '../../bench/random.ts';
import {apiObjects, endpoint, nodeDump, service, slice} from '../../cluster.ts';
import {expectedTable} from '../../nft-expectation.ts';
import {withRules} from '../../rendered-dump.ts';
import {nftText} from '../../rendered-nft.ts';
import {findingsOf, needsAction} from '../../scenario.ts';
import {withRule} from '../../editable-dump.ts';
import {withFiles} from '../../fixtures.ts';

const names = ['shop/a', 'shop/b', 'shop/c'] as const;

/** Three Services that differ in their names, addresses and ports alone. */
function cluster(mode: 'iptables' | 'nftables'): Snapshot {
  const api = apiObjects({
    services: names.map((name, index) =>
      service(name, {
        ...{type: 'NodePort', clusterIP: clusterIP(index), clusterIPs: [clusterIP(index)], ipFamilies: ['IPv4']},
        ports: [{name: 'http', protocol: 'TCP', port: 80 + index, nodePort: 30_080 + index}],
      }),
    ),
    endpointSlices: names.map((name, index) =>
      slice(name, [endpoint(pod(index), 'node-b')], {ports: [{name: 'http', port: 8080 + index, protocol: 'TCP'}]}),
    ),
    nodes: [
      {
        metadata: {name: 'node-a'},
        spec: {podCIDRs: ['10.244.1.0/24']},
        status: {addresses: [{type: 'InternalIP', address: '192.168.1.10'}]},
      },
    ],
  });
  const config = {apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration', mode, clusterCIDR: '10.244.0.0/16'};
  const node = nodeDump('node-a', {
    'kube-proxy-version': 'v1.36.0\n',
    'kube-proxy-config.yaml': JSON.stringify(config),
    'addresses.json': JSON.stringify([{ifname: 'eth0', addr_info: [{local: '192.168.1.10'}]}]),
  });
  const bare = {origin: 'three Services', api, problems: [], nodes: [node]};
  if (mode === 'iptables') return withRules(bare, seededRandom(1));
  return {...bare, nodes: [withFiles(node, {'nft.txt': nftText(expectedTable({api, node})), 'iptables-save': ''})]};
}

function clusterIP(index: number): string {
  return `10.96.0.${10 + index}`;
}

function pod(index: number): string {
  return `10.244.2.${10 + index}`;
}

type Change = (dump: string) => string;

/** Findings beside those that the cluster has without the change. */
function found(mode: 'iptables' | 'nftables', change: Change, files: Readonly<Record<string, string>> = {}): readonly Finding[] {
  const snapshot = cluster(mode);
  expect(ofNode(snapshot)).toEqual([]);
  const file = mode === 'iptables' ? 'iptables-save' : 'nft.txt';
  const nodes = snapshot.nodes.map(node => withFiles(node, {...files, [file]: change(node.read(file)?.toString() ?? '')}));
  return ofNode({...snapshot, nodes});
}

function ofNode(snapshot: Snapshot): readonly Finding[] {
  return findingsOf(snapshot).filter(finding => finding.node !== undefined && needsAction(finding));
}

const each = names.map((name, index) => ({name, index}));

describe.each(each)('$name', ({name, index}) => {
  const others = names.filter(other => other !== name);

  test('is broken itself, and a rule drops the packets to the others', () => {
    const broken: Change = dump => dump.replace(new RegExp(`^-A KUBE-SEP-.* --to-destination ${pod(index)}:.*\n`, 'm'), '');
    const dropping = withRule('filter', '-A FORWARD -s 10.244.0.0/16 -j DROP');
    const all = found('iptables', dump => broken(dropping(dump)));
    expect(all.map(({code}) => code)).toContain('ST303');
  });

  test('still leads to a former endpoint, and a rule drops the packets to that', () => {
    const {api, nodes, ...rest} = cluster('iptables');
    const endpointSlices = (api.endpointSlices ?? []).map((own, at) =>
      at === index ? {...own, endpoints: [endpoint('10.244.2.99', 'node-b')]} : own,
    );
    const dropping = withRule('filter', `-A FORWARD -d ${pod(index)}/32 -j DROP`);
    const changed = nodes.map(node => withFiles(node, {'iptables-save': dropping(node.read('iptables-save')?.toString() ?? '')}));
    const all = ofNode({...rest, api: {...api, endpointSlices}, nodes: changed});
    expect(all.map(({code, service: of}) => `${code} ${of?.namespace}/${of?.name}`)).toContain(`ST303 ${name}`);
  });

  test.each([
    ['its cluster IP', 'nat', `-A PREROUTING ! -d ${clusterIP(index)}/32 -j ACCEPT`],
    ['its port', 'nat', `-A PREROUTING -p tcp -m tcp ! --dport ${80 + index} -j ACCEPT`],
    ['its port among several', 'nat', `-A PREROUTING -p tcp -m multiport ! --dports ${80 + index},8443 -j ACCEPT`],
    ['its endpoint', 'filter', `-A FORWARD ! -d ${pod(index)}/32 -j DROP`],
    ['a mask of its endpoint', 'filter', `-A FORWARD ! -d ${pod(index)}/255.255.0.255 -j DROP`],
    ['a range with its endpoint', 'filter', `-A FORWARD -m iprange ! --dst-range ${pod(index)}-${pod(index)} -j DROP`],
  ])('is the only one that a rule spares, by %s', (_, table, rule) => {
    const all = found('iptables', withRule(table, rule));
    expect(all.map(({severity}) => severity)).toContain('error');
    expect(all.some(({message}) => /[23] Service ports/.test(message) || others.some(other => message.includes(other)))).toBe(true);
  });

  test.each([
    ['the only one that is in a set', `-A FORWARD -m set --match-set blocked dst -j DROP`, name],
    ['the only one that is not in a set', `-A FORWARD -m set ! --match-set blocked dst -j DROP`, others[0] ?? ''],
  ])('is %s', (_, rule, concerned) => {
    const set = `create blocked hash:ip family inet hashsize 1024 maxelem 65536\nadd blocked ${pod(index)}\n`;
    const all = found('iptables', withRule('filter', rule), {'ipset-save': set});
    expect(all.map(({code}) => code)).toContain('ST303');
    expect(all.some(({message}) => message.includes(concerned))).toBe(true);
  });

  test.each([
    [
      'its chain',
      (dump: string) =>
        withRule(
          'nat',
          `-A OUTPUT -j ${/ -j (KUBE-SVC-\S+)/.exec(dump.split('\n').find(line => line.includes(`${clusterIP(index)}/32`) && line.startsWith('-A KUBE-SERVICES')) ?? '')?.[1]}`,
        )(dump),
    ],
    ['its endpoint', withRule('nat', `-A PREROUTING -p tcp -j DNAT --to-destination ${pod(index)}:${8080 + index}`)],
  ])('gets the packets of all others by a rule that leads to %s', (_, change) => {
    const all = found('iptables', change);
    expect(all.map(({code}) => code)).toContain('ST401');
    expect(all.some(({message}) => /[23] Service ports/.test(message) || others.some(other => message.includes(other)))).toBe(true);
  });

  test.each([
    ['cluster IP', `ip daddr != ${clusterIP(index)} drop`, 'prerouting'],
    ['port', `tcp dport != ${80 + index} drop`, 'prerouting'],
    ['endpoint', `ip daddr != ${pod(index)} drop`, 'forward'],
  ])('in nftables mode is the only one that a rule spares, by its %s', (_, rule, hook) => {
    const table = `table ip other {\n\tchain own {\n\t\ttype filter hook ${hook} priority -150; policy accept;\n\t\t${rule}\n\t}\n}\n`;
    const all = found('nftables', ruleset => ruleset + table);
    expect(all.map(({severity}) => severity)).toContain('error');
    expect(all.some(({message}) => /[23] Service ports/.test(message) || others.some(other => message.includes(other)))).toBe(true);
  });
});

test('a Service whose own rules do not mark packets stands for no other one, where the policy of FORWARD drops them for that', () => {
  const dropping: Change = dump =>
    withRule('filter', '-A FORWARD -s 10.244.0.0/16 -j ACCEPT')(dump.replace(/(\*filter\n[^*]*:FORWARD) ACCEPT/, '$1 DROP'));
  const unmarked: Change = dump => dump.replace(/^-A KUBE-EXT-\S+ -m comment --comment "masquerade traffic for shop\/a:.*\n/m, '');
  const blocked = found('iptables', dump => unmarked(dropping(dump))).filter(({code}) => code === 'ST303');
  expect(blocked).toMatchObject([{service: {name: 'a'}, severity: 'error'}]);
});

test.each([
  ['cluster IPs', 'ip daddr 10.96.0.11-10.96.0.12 drop'],
  ['ports', 'tcp dport 81-82 drop'],
])('in nftables mode, Service ports inside a range of %s are found', (_, rule) => {
  const table = `table ip other {\n\tchain own {\n\t\ttype filter hook prerouting priority -150; policy accept;\n\t\t${rule}\n\t}\n}\n`;
  const all = found('nftables', ruleset => ruleset + table);
  expect(all.map(({code}) => code)).toContain('ST402');
  expect(all.every(({message}) => !message.includes('shop/a'))).toBe(true);
});

test('in nftables mode, a rule of another table that names no Service counts all that it concerns', () => {
  const table =
    'table ip other {\n\tchain own {\n\t\ttype filter hook forward priority 0; policy accept;\n\t\tip daddr != 172.31.0.0/16 drop\n\t}\n}\n';
  const all = found('nftables', ruleset => ruleset + table);
  expect(all).toMatchObject([{code: 'ST303', severity: 'error', message: expect.stringContaining('(3 Service ports, such as shop/')}]);
});

test.each([
  ['a range of ports', '--dport 30000:32767'],
  ['all ports but one', '! --dport 30080'],
])('a rule of KUBE-NODEPORTS that matches %s is about all Service ports with a node port', (_, condition) => {
  const all = found('iptables', withRule('nat', `-A KUBE-NODEPORTS -p tcp -m tcp ${condition} -j RETURN`));
  expect(all).toMatchObject([{code: 'ST216', severity: 'error'}]);
});

describe('packets that the rules of a Service port lose themselves are not lost to a third-party rule', () => {
  /** Half of the packets to each Service reach no endpoint. */
  const losing: Change = dump =>
    dump.replaceAll(/^(-A KUBE-SVC-\S+) .* -j KUBE-SEP-\S+$/gm, '$1 -m statistic --mode random --probability 0.50000000000 -j RETURN\n$&');

  test.each([
    ['accepts them', (dump: string) => dump.replace(/(-A PREROUTING .* -j KUBE-SERVICES\n)/, '$1-A PREROUTING -p tcp -j ACCEPT\n')],
    ['drops them', withRule('filter', '-A FORWARD -d 10.96.0.0/16 -j DROP')],
  ])('that %s', (_, change) => {
    const codes = new Set(found('iptables', dump => losing(change(dump))).map(({code}) => code));
    expect([...codes].sort()).toEqual([...new Set(found('iptables', losing).map(({code}) => code))].sort());
    expect(codes.size).toBeGreaterThan(0);
  });
});
