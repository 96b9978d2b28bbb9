import {describe, expect, test} from 'vitest';
import {inferNftConfig} from '../../../src/expect/nftables/infer-nft-config.ts';
import {kubeProxyTables} from '../../../src/analyze/nftables/nft-rules.ts';
import {parseNftDump} from '../../../src/parse/nftables/nft-dump.ts';
import {readFixture} from '../../fixtures.ts';

const seenIn = (capture: string, change: (text: string) => string = text => text) =>
  inferNftConfig(kubeProxyTables(parseNftDump(change(readFixture(`captures/nftables/${capture}/nodes/node-a/nft.txt`).toString()))));

describe('the table of a kube-proxy', () => {
  test.each([
    ['1.31', 32],
    ['1.33', 33],
    ['1.36', 36],
  ])('%s', (capture, minor) => {
    const {version, ...settings} = seenIn(capture);
    expect(version).toMatchObject({minor, guessed: true});
    expect(settings).toMatchObject({
      mode: 'nftables',
      clusterCIDRs: ['10.244.0.0/16'],
      nftMasqueradeAll: false,
      nftMasqueradeBit: 14,
      nodePortAddresses: ['172.18.0.11', '::/0'],
    });
  });

  test('without the port in its masquerade rules shows 1.34 or 1.35', () => {
    const {version} = seenIn('1.33', text => text.replaceAll(/ (?:tcp|udp|sctp) dport \d+ (?=.* jump mark-for-masquerade)/g, ' '));
    expect(version).toMatchObject({minor: 35});
  });

  test('with base chains of an earlier version shows the later version', () => {
    const chain = '\tchain filter-prerouting {\n\t\ttype filter hook prerouting priority dstnat - 10; policy accept;\n\t}\n\n';
    const {version} = seenIn('1.36', text => text.replace('\tchain filter-input {', `${chain}\tchain filter-input {`));
    expect(version).toMatchObject({minor: 36});
  });

  test('shows masqueradeAll, and which clients count as pods', () => {
    expect(seenIn('masquerade-all')).toMatchObject({nftMasqueradeAll: true, clusterCIDRs: ['10.244.0.0/16']});
  });

  test('shows node ports on all addresses', () => {
    expect(seenIn('nodeport-all')).toMatchObject({nodePortAddresses: ['0.0.0.0/0', '::/0']});
  });

  test('shows another mark, and a detector by interface', () => {
    const seen = seenIn('1.36', text =>
      text.replaceAll('0x00004000', '0x00000020').replaceAll(/ip saddr(?<not> !=)? 10\.244\.0\.0\/16/g, 'iifname$<not> "veth*"'),
    );
    expect(seen).toMatchObject({
      nftMasqueradeBit: 5,
      detectLocalMode: 'InterfaceNamePrefix',
      interfaceNamePrefix: 'veth',
      clusterCIDRs: [],
    });
  });

  test('shows nothing if it does not exist', () => {
    expect(inferNftConfig([])).toEqual({});
  });
});
