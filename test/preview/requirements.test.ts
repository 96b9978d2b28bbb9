/** What stops kube-proxy before a packet is lost: reported failures of real clusters, replayed. */
import {describe, expect, test} from 'vitest';
import type {ConfigOverrides} from '../../src/expect/resolve-proxy-config.ts';
import type {Preview, Requirement} from '../../src/model/preview-result.ts';
import type {Scenario} from '../scenario.ts';
import {interfaces, nodes, type PreviewSettings, previewFrom as previewOfAll, withKernel} from './previews.ts';

const node = 'node-a';

/** Of the node alone. */
function previewFrom(capture: string, overrides: ConfigOverrides, change: (given: Scenario) => void, settings: PreviewSettings = {}) {
  return previewOfAll(capture, overrides, change, {nodes: [node], ...settings});
}

function toNftables(change: (given: Scenario) => void, overrides: ConfigOverrides = {}) {
  return previewFrom('healthy/1.36-iptables', {mode: 'nftables', ...overrides}, change);
}

function found({requirements}: Preview, name: Requirement['name']): readonly string[] {
  return requirements.filter(one => one.node === node && one.name === name).map(({status, detail}) => `${status}: ${detail}`);
}

function named(preview: Preview, name: Requirement['name'], text: string): readonly string[] {
  return found(preview, name).flatMap(one => (one.includes(text) ? (one.split(':', 1)[0] ?? '') : []));
}

describe('kubernetes#136786: sets of a newer nft crash the nft in the image', () => {
  const dump = (version: string, ...objects: readonly object[]) =>
    JSON.stringify({
      nftables: [
        {metainfo: {version, release_name: 'x', json_schema_version: 1}},
        {table: {family: 'inet', name: 'fw', handle: 1}},
        ...objects,
      ],
    });
  const set = {set: {family: 'inet', table: 'fw', name: 'wan', type: 'ifname', handle: 2, elem: ['eth0']}};
  const about = async (text: string | null, version: string) =>
    named(
      await toNftables(given => (text === null ? undefined : given.file(node, 'nft.json', text)), {version}),
      'nft',
      'image of kube-proxy',
    );

  test.each([
    ['v1.33.10', 'v1.33.11'],
    ['v1.34.6', 'v1.34.7'],
    ['v1.35.3', 'v1.35.4'],
    ['v1.32.9', 'v1.36.0'],
  ])('stops %s, and not %s', async (broken, corrected) => {
    expect(await about(dump('1.1.3', set), broken)).toEqual(['unmet']);
    expect(await about(dump('1.1.3', set), corrected)).toEqual([]);
  });

  test('asks for sets, and for an nft of 1.1.2 or newer', async () => {
    expect(await about(dump('1.1.3'), 'v1.35.3')).toEqual([]);
    expect(await about(dump('1.0.9', set), 'v1.35.3')).toEqual([]);
    expect(await about(dump('1.1.2', set), 'v1.35.3')).toEqual(['unmet']);
  });

  test('is unknown where the nft of the node was not read', async () => {
    expect(named(await toNftables(() => {}, {version: 'v1.35.3'}), 'nft', "node's nft was not read")).toEqual(['unknown']);
    expect(named(await toNftables(() => {}, {version: 'v1.36.2'}), 'nft', "node's nft was not read")).toEqual([]);
  });

  test('also concerns an upgrade of a node that is in nftables mode', async () => {
    const upgrade = async (version: string) =>
      named(
        await previewFrom('nftables/1.33', {version}, given => given.file(node, 'nft-ruleset.json', dump('1.1.3', set))),
        'nft',
        'image of',
      );
    expect(await upgrade('v1.34.6')).toEqual(['unmet']);
    expect(await upgrade('v1.34.7')).toEqual([]);
  });
});

describe('kubernetes#142068: the probe of nfacct succeeds, and every restore fails', () => {
  const line = `E0801 10:00:00.000000       1 proxier.go:1551] "Failed to execute iptables-restore" err="exit status 4: Warning: Extension nfacct revision 0 not supported, missing kernel module?" ipFamily="IPv4"`;
  const upgrade = (change: (given: Scenario) => void) => previewFrom('healthy/1.30-iptables', {version: 'v1.31.0'}, change);

  test('is unknown for an upgrade to 1.31, with the command that tells', async () => {
    const preview = await upgrade(() => {});
    expect(found(preview, 'kernel').join()).toContain('modprobe -an nfnetlink_acct xt_nfacct');
    expect(found(preview, 'kube-proxy-log')).toEqual([]);
  });

  test('is unmet where the log of kube-proxy shows it', async () => {
    const [said] = found(await upgrade(given => given.file(node, 'kube-proxy.log', line)), 'kube-proxy-log');
    expect(said).toMatch(/^unmet: kube-proxy failed in this mode before: the kernel lacks the module xt_nfacct/);
  });

  test('says nothing of nftables mode', async () => {
    expect(found(await toNftables(given => given.file(node, 'kube-proxy.log', line)), 'kube-proxy-log')).toEqual([]);
  });
});

describe("containers-roadmap#2826: the host network loses the API's cluster IP between IPVS and iptables mode", () => {
  const from = async (mode: 'iptables' | 'nftables', overrides: ConfigOverrides = {}) => {
    const none = {clusterCIDRs: [], detectLocalMode: 'ClusterCIDR'} as const;
    const {advice} = await previewFrom('ipvs/1.36', {mode, ...none, ...overrides}, () => {});
    return advice.filter(({id}) => id === 'masquerade-all').map(({remedy}) => remedy);
  };

  test('is named without masqueradeAll and without a way to tell pods', async () => {
    expect(await from('iptables')).toEqual([expect.stringContaining('Set iptables.masqueradeAll: true')]);
    expect(await from('nftables')).toEqual([expect.stringContaining('Set nftables.masqueradeAll: true')]);
  });

  test('is not named where either is set', async () => {
    expect(await from('iptables', {masqueradeAll: true})).toEqual([]);
    expect(await from('iptables', {clusterCIDRs: ['10.244.0.0/16', 'fd00:10:244::/56']})).toEqual([]);
  });
});

/** The report names no cause: node ports are unreachable after an upgrade, and a reboot helps where restarts do not. */
describe('k3s#5031: after an upgrade in IPVS mode node ports are unreachable until the node reboots', () => {
  const upgrade = (change: (given: Scenario) => void) => previewFrom('ipvs/1.28', {version: 'v1.36.2'}, change);

  test('the rules of the newer version serve every node port that those of the older one serve', async () => {
    const {changes, ports} = await upgrade(() => {});
    expect(changes.filter(({effect, entry}) => effect === 'lost' && entry.kind === 'nodePort')).toEqual([]);
    expect(ports.filter(({status}) => status === 'not-proved')).toEqual([]);
  });

  test('a kube-proxy that found no modules of IPVS would not run in its mode again', async () => {
    const line = `E0126 09:00:00.000000       1 proxier.go:722] "Can't use the IPVS proxier" err="IPVS proxier will not be used because the kernel modules are missing"`;
    const [said] = found(await upgrade(given => given.file(node, 'kube-proxy.log', line)), 'kube-proxy-log');
    expect(said).toMatch(/^unmet: kube-proxy failed in this mode before: the kernel lacks the modules of IPVS/);
  });

  test('what falls back to iptables mode leaves virtual servers that a cleanup or a reboot removes, and no restart', async () => {
    const [said] = found(await previewFrom('ipvs/1.28', {mode: 'iptables'}, () => {}), 'leftovers');
    expect(said).toMatch(/^unmet: .*run kube-proxy --cleanup between the two, or reboot the node$/);
  });
});

test('kernels without the modules of nftables mode are unknown, with the command that tells (siderolabs/pkgs#951)', async () => {
  const preview = await previewFrom('healthy/1.36-iptables', {mode: 'nftables'}, withKernel('6.6.0'), {nodes});
  expect(named(preview, 'kernel-modules', 'modprobe -an nft_fib_ipv4')).toEqual(['unknown']);
  expect(preview.requirements.filter(({detail}) => detail.includes('nft_fib'))).toHaveLength(nodes.length);
  expect(named(await toNftables(() => {}, {mode: 'iptables'}), 'kernel-modules', 'nft_fib')).toEqual([]);
});

test('kernels without the modules of iptables are unknown on the way back from nftables mode (canonical/microk8s#5525)', async () => {
  const back = async (capture: string) =>
    named(await previewFrom(capture, {mode: 'iptables'}, () => {}), 'kernel-modules', 'modprobe -an xt_comment');
  expect(await back('nftables/1.36')).toEqual(['unknown']);
  expect(await back('ipvs/1.36')).toEqual([]);
});

describe('a node that forwards nothing', () => {
  const switches = (on: number) => (given: Scenario) => given.file(node, 'sysctls', `net.ipv4.ip_forward = ${on}\n`);

  test.each(['nftables', 'ipvs'] as const)('serves nobody today and in %s mode, so that nothing is lost or gained', async mode => {
    const preview = await previewFrom('healthy/1.36-iptables', {mode}, switches(0));
    expect(found(preview, 'forwarding')).toEqual([
      'unmet: net.ipv4.ip_forward is 0: the node forwards no IPv4 packets. Its pods reach no Service and its node ports lead to no pod, today and after the change',
    ]);
    const other = preview.changes.filter(({packet, source}) => packet.family === 'IPv4' && source.kind !== 'node');
    expect(other.filter(({effect}) => effect === 'lost' || effect === 'gained')).toEqual([]);
  });

  test('loses node ports of its own programs, for which it forwards nothing', async () => {
    const own = (given: Scenario): void => {
      switches(0)(given);
      given.file(node, 'addresses.json', interfaces('172.18.0.11', '172.19.0.11'));
      given.slices('shop/nodeport', slice => ({...slice, endpoints: [{addresses: ['172.18.0.11'], nodeName: node}]}));
    };
    const {changes} = await previewFrom('healthy/1.36-iptables', {mode: 'nftables'}, own, {expectedOnly: true});
    const lost = changes.filter(({effect, source}) => effect === 'lost' && source.kind === 'external');
    expect(lost.map(({service, packet}) => `${service.name} ${packet.destination}:${packet.port}`)).toEqual(['nodeport 172.19.0.11:30080']);
  });

  test('is told from one that forwards, and from one of which that was not read', async () => {
    for (const change of [switches(1), () => {}])
      expect(found(await previewFrom('healthy/1.36-iptables', {mode: 'nftables'}, change), 'forwarding')).toEqual([]);
  });
});
