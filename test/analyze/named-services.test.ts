/** Of many Service ports, only some are walked through rules that kube-proxy did not write. Those that the rules name are among them. */
import {expect, test} from 'vitest';
import type {NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {seededRandom} from '../bench/random.ts';
import {apiObjects, endpoint, nodeDump, service, slice} from '../cluster.ts';
import {withRule} from '../editable-dump.ts';
import {type WrittenMode, writtenNode} from '../rendered-node.ts';
import {findingsOf, needsAction} from '../scenario.ts';
import {withFiles} from '../fixtures.ts';

const count = 320;
/** The last Service, its cluster IP and one of its two endpoints. */
const last = {name: `shop/s${count - 1}`, clusterIP: '10.96.1.63', pod: '10.244.3.63'};

/** Two Services use UDP. Of these, this one costs less to walk. */
const broken = 1;

function protocolOf(index: number): string {
  return index === broken || index === 3 ? 'UDP' : 'TCP';
}

function cluster(mode: WrittenMode, settings: Readonly<Record<string, unknown>> = {clusterCIDR: '10.244.0.0/16'}): Snapshot {
  const indexes = Array.from({length: count}, (_, index) => index);
  const host = (index: number): string => `${index >> 8}.${index & 255}`;
  const api = apiObjects({
    services: indexes.map(index => {
      const clusterIP = `10.96.${host(index)}`;
      const ports = [{name: 'http', protocol: protocolOf(index), port: 80}];
      return service(`shop/s${index}`, {clusterIP, clusterIPs: [clusterIP], ipFamilies: ['IPv4'], ports});
    }),
    endpointSlices: indexes.map(index =>
      slice(
        `shop/s${index}`,
        [
          ...(index === broken ? [] : [endpoint(`10.244.0.${index % 4}`, 'node-a')]),
          endpoint(`10.244.${2 + (index >> 8)}.${index & 255}`, 'node-a'),
        ],
        {ports: [{name: 'http', port: 8080, protocol: protocolOf(index)}]},
      ),
    ),
    nodes: [
      {
        metadata: {name: 'node-a'},
        spec: {podCIDRs: ['10.244.0.0/22']},
        status: {addresses: [{type: 'InternalIP', address: '192.168.1.10'}]},
      },
    ],
  });
  const node = nodeDump('node-a', {
    'kube-proxy-version': 'v1.34.0\n',
    'kube-proxy-config.yaml': JSON.stringify({
      ...{apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration', mode},
      ...settings,
    }),
    'addresses.json': JSON.stringify([{ifname: 'eth0', addr_info: [{local: '192.168.1.10'}]}]),
  });
  return {origin: 'many Services', api, problems: [], nodes: [writtenNode(node, api, {mode, random: seededRandom(1)})]};
}

/** What is found on the node in addition, as severity, code and message. */
function found(snapshot: Snapshot, file: string, change: (text: string) => string): readonly string[] {
  const short = (nodes: readonly NodeDump[]): readonly string[] =>
    findingsOf({...snapshot, nodes})
      .filter(finding => finding.node !== undefined && needsAction(finding))
      .map(({severity, code, message}) => `${severity} ${code} ${message}`);
  expect(short(snapshot.nodes)).toEqual([]);
  return short(
    snapshot.nodes.map(node => {
      const text = node.read(file)?.toString() ?? '';
      const changed = change(text);
      expect(changed).not.toBe(text);
      return withFiles(node, {[file]: changed});
    }),
  );
}

const nftables = cluster('nftables');
const inChain =
  (chain: string, rule: string) =>
  (ruleset: string): string =>
    ruleset.replace(new RegExp(`(\\tchain ${chain} \\{\\n(?:\\t\\ttype .*\\n)?)`), `$1\t\t${rule}\n`);

test.each([
  ['the cluster IP', 'services', `ip daddr ${last.clusterIP} drop`],
  ['the cluster IP, and all pods', 'services', `ip saddr 10.244.0.0/16 ip daddr ${last.clusterIP} drop`],
  ['the endpoint', 'filter-forward', `ip daddr ${last.pod} drop`],
  ['the endpoint as a client', 'services', `ip saddr ${last.pod} drop`],
  ['the cluster IP, in a range', 'services', 'ip daddr 10.96.1.63-10.96.1.70 drop'],
])('in nftables mode, a rule that names %s of the last of %s is an error', (_, chain, rule) => {
  const all = found(nftables, 'nft.txt', inChain(chain, rule));
  expect(all).toHaveLength(1);
  expect(all[0]).toMatch(/^error /);
  expect(all[0]).toContain(last.name);
});

test('in nftables mode, an unexpected chain is followed to the Service that its rules name', () => {
  const change = (ruleset: string): string =>
    inChain('services', 'jump own')(ruleset).replace('\tchain services {', `\tchain own {\n\t\tip daddr ${last.clusterIP} drop\n\t}\n\n$&`);
  expect(found(nftables, 'nft.txt', change).some(text => text.startsWith('error ') && text.includes(last.name))).toBe(true);
});

test('in nftables mode, a rule that drops the connections of a second endpoint to itself is an error', () => {
  // Without clusterCIDR, kube-proxy masquerades nothing else.
  const all = found(
    cluster('nftables', {}),
    'nft.txt',
    inChain('masquerading', `meta mark & 0x00004000 == 0x00004000 ip daddr ${last.pod} drop`),
  );
  expect(all).toHaveLength(1);
  expect(all[0]).toMatch(/^error ST21[36] shop\/s319:http: .*packets from the endpoint itself/);
});

test('in nftables mode, a rule of another table that spares other packets is an error of each Service that it concerns', () => {
  const table = `table ip other {\n\tchain own {\n\t\ttype filter hook prerouting priority -150; policy accept;\n\t\tudp dport != 53 drop\n\t}\n}\n`;
  const all = found(nftables, 'nft.txt', ruleset => ruleset + table);
  expect(all).toEqual([
    expect.stringMatching(/^error ST402 shop\/s1:http: .*10\.96\.0\.1\b/),
    expect.stringMatching(/^error ST402 shop\/s3:http: .*10\.96\.0\.3\b/),
  ]);
});

const iptables = cluster('iptables');

test.each([
  ['KUBE-SERVICES', `-d ${last.clusterIP}/32 -j RETURN`, 'error ST216'],
  ['KUBE-SERVICES', `-s ${last.pod}/32 -d 10.96.0.0/16 -j ACCEPT`, 'error ST216'],
  ['KUBE-MARK-MASQ', `-d ${last.clusterIP}/32 -j RETURN`, 'error ST302'],
  ['KUBE-POSTROUTING', `-d ${last.pod}/32 -j RETURN`, 'error ST302'],
])('in iptables mode, a rule of %s with %s is an error', (chain, condition, code) => {
  const all = found(iptables, 'iptables-save', withRule('nat', `-A ${chain} ${condition}`));
  expect(all).toHaveLength(1);
  expect(all[0]).toMatch(new RegExp(`^${code} `));
});

test('in iptables mode, a rule of KUBE-FORWARD that drops packets to one endpoint is an error', () => {
  const all = found(iptables, 'iptables-save', withRule('filter', `-A KUBE-FORWARD -d ${last.pod}/32 -j DROP`));
  expect(all.map(text => text.slice(0, 11))).toEqual(['error ST303']);
});

test('in iptables mode, a rule of KUBE-FORWARD that drops what some clients send is an info that names their range', () => {
  const rule = withRule('filter', '-A KUBE-FORWARD -s 203.0.113.0/24 -j DROP');
  expect(found(iptables, 'iptables-save', rule)).toEqual([]);
  const nodes = iptables.nodes.map(node => withFiles(node, {'iptables-save': rule(node.read('iptables-save')?.toString() ?? '')}));
  const texts = findingsOf({...iptables, nodes}).map(({severity, code, message}) => `${severity} ${code} ${message}`);
  expect(texts).toContainEqual(expect.stringMatching(/^info ST216 a rule in filter\/KUBE-FORWARD .* 203\.0\.113\.0\/24 /));
});

const ipvs = cluster('ipvs');

test('in IPVS mode, a rule of KUBE-MARK-MASQ that names the last Service is an error', () => {
  const all = found(ipvs, 'iptables-save', withRule('nat', `-A KUBE-MARK-MASQ -d ${last.clusterIP}/32 -j ACCEPT`));
  expect(
    all.some(text => /^(?:error|warning) ST(?:302|209)/.test(text)),
    all.join('\n'),
  ).toBe(true);
});

test('in IPVS mode, a third-party rule is found if the Service port that costs the least to walk has a fault of its own', () => {
  const [node] = ipvs.nodes;
  const servers = node?.read('ipvsadm-save')?.toString() ?? '';
  const without = servers.replaceAll(new RegExp(`^-[Aa] -u 10\\.96\\.0\\.${broken}:80 .*\n`, 'gm'), '');
  expect(without).not.toBe(servers);
  const faulty = {...ipvs, nodes: node === undefined ? [] : [withFiles(node, {'ipvsadm-save': without})]};
  const rule = '-A INPUT -p udp -j DROP';
  const dropping = (snapshot: Snapshot): readonly string[] =>
    findingsOf({
      ...snapshot,
      nodes: snapshot.nodes.map(one =>
        withFiles(one, {'iptables-save': withRule('filter', rule)(one.read('iptables-save')?.toString() ?? '')}),
      ),
    }).flatMap(({code, message}) => (code === 'ST402' ? [message] : []));
  expect(dropping(ipvs)).toMatchObject([expect.stringContaining('2 Service ports')]);
  expect(dropping(faulty)).toMatchObject([expect.stringContaining('shop/s3:http')]);
});
