/** Healthy nodes of which a part was read: where the dump ends says nothing of them. */
import {expect, test} from 'vitest';
import {diagnose} from '../../../src/diagnose.ts';
import {needsAction, scenario} from '../../scenario.ts';

const settingsFiles = ['configz.json', 'kube-proxy-config.yaml', 'kube-proxy-version', 'healthz.json'];

test.each([
  {capture: '1.31', file: 'nft.txt'},
  {capture: '1.33', file: 'nft.json'},
  {capture: '1.36', file: 'nft.txt'},
  {capture: '1.36', file: 'nft.json'},
])(
  'the truncated $file of $capture is no fault of the node, wherever it ends and whatever else is known of the node',
  async ({capture, file}) => {
    const other = file === 'nft.txt' ? 'nft.json' : 'nft.txt';
    const given = await scenario(`nftables/${capture}`);
    const whole = given.rules('node-a', file).toString();
    const places = [2, 3, 4, 7, 10, 13, 15].map(part => Math.floor((whole.length * part) / 16));
    if (file === 'nft.txt') places.push(whole.indexOf('table ip6') + 12, whole.indexOf('chain nat-output {') + 40);
    for (const place of places) {
      const cut = await scenario(`nftables/${capture}`);
      cut.file('node-a', other, null);
      cut.file('node-a', file, whole.slice(0, place));
      for (const withSettings of [true, false]) {
        if (!withSettings) for (const name of settingsFiles) cut.file('node-a', name, null);
        const {findings, nodes} = diagnose(cut.snapshot(), {toolVersion: '', nodes: name => name === 'node-a'});
        const codes = findings.filter(finding => finding.node === 'node-a' && needsAction(finding)).map(({code}) => code);
        expect({place, withSettings, codes, status: nodes[0]?.status}).toEqual({place, withSettings, codes: ['ST506'], status: 'unread'});
      }
    }
  },
);

type Objects = readonly Readonly<Record<string, {readonly family: string; readonly name?: string; readonly chain?: string}>>[];

/** Codes that need action on node-a, with its JSON changed. */
async function codesWith(capture: string, change: (objects: Objects) => Objects): Promise<readonly string[]> {
  const given = await scenario(`nftables/${capture}`);
  const {nftables} = JSON.parse(given.rules('node-a', 'nft.json').toString()) as {nftables: Objects};
  given.file('node-a', 'nft.txt', null);
  given.file('node-a', 'nft.json', JSON.stringify({nftables: change(nftables)}));
  const {findings, nodes} = diagnose(given.snapshot(), {toolVersion: '', nodes: name => name === 'node-a'});
  const codes = findings.filter(finding => finding.node === 'node-a' && needsAction(finding)).map(({code}) => code);
  return [...new Set(codes), nodes[0]?.status ?? ''];
}

test.each(['1.31', '1.33', '1.36'])('a list of %s that lost its end and was closed again is truncated', async capture => {
  for (const part of [1, 2, 4, 7, 8, 9, 11, 12, 15])
    expect(await codesWith(capture, objects => objects.slice(0, Math.floor((objects.length * part) / 16)))).toEqual(['ST506', 'unread']);
});

test('chains before maps, as newer versions of nft print them: a list that lost its maps is truncated', async () => {
  const codes = await codesWith('1.36', objects => {
    const sets = objects.filter(item => 'set' in item || 'map' in item);
    const chains = objects.filter(item => 'chain' in item);
    return [...objects.slice(0, 2), ...chains.filter(({chain}) => chain?.family === 'ip'), ...sets.slice(0, 2)];
  });
  expect(codes).toEqual(['ST506', 'unread']);
});

test.each<{readonly what: string; readonly empty: (chain: string, family: string) => boolean}>([
  {what: 'all chains of the last Service', empty: chain => chain.includes('infra/sctp/')},
  {what: 'all chains of Services', empty: chain => /^(?:service|endpoint|external|local|firewall)-\w{8}-/.test(chain)},
  {what: 'all chains of IPv6', empty: (_, family) => family === 'ip6'},
  {what: 'all chains', empty: () => true},
])('$what without rules are faults', async ({empty}) => {
  const codes = await codesWith('1.36', objects => objects.filter(({rule}) => rule === undefined || !empty(rule.chain ?? '', rule.family)));
  expect(codes).toEqual(expect.arrayContaining(['checked', expect.stringMatching(/^ST[23]/)]));
  expect(codes).not.toContain('ST506');
});

test.each(['nft.txt', 'nft.json'])('NUL characters inside %s leave the node unread, at its end they are nothing', async file => {
  for (const [place, status] of [
    [0.5, 'unread'],
    [1, 'checked'],
  ] as const) {
    const given = await scenario('nftables/1.36');
    const whole = given.rules('node-a', file).toString();
    const at = Math.floor(whole.length * place);
    given.file('node-a', file === 'nft.txt' ? 'nft.json' : 'nft.txt', null);
    given.file('node-a', file, `${whole.slice(0, at)}${'\0'.repeat(9)}${whole.slice(at)}`);
    const {findings, nodes} = diagnose(given.snapshot(), {toolVersion: '', nodes: name => name === 'node-a'});
    const codes = findings.filter(finding => finding.node === 'node-a' && needsAction(finding)).map(({code}) => code);
    expect([nodes[0]?.status, codes]).toEqual([status, status === 'unread' ? ['ST901'] : []]);
  }
});

test.each([
  ['nft.json', 'goto', /^its nft\.json was damaged: this is no JSON: \{"(?:rule|map)": /],
  ['nft.txt', '\n\t\tmeta l4proto', /: Killed\)/],
] as const)('a word of another program inside %s leaves the node unread', async (file, before, reason) => {
  const given = await scenario('nftables/1.36');
  const whole = given.rules('node-a', file).toString();
  const at = whole.indexOf(before, Math.floor(whole.length / 2));
  given.file('node-a', file === 'nft.txt' ? 'nft.json' : 'nft.txt', null);
  given.file('node-a', file, `${whole.slice(0, at)}\nKilled\n${whole.slice(at)}`);
  const {findings, nodes} = diagnose(given.snapshot(), {toolVersion: '', nodes: name => name === 'node-a'});
  expect(findings.filter(({node, severity}) => node === 'node-a' && severity === 'error')).toEqual([]);
  expect(nodes[0]).toMatchObject({status: 'unread', reason: expect.stringMatching(reason)});
});

test('two dumps with different rules in one file leave the base rules of IPVS mode unread', async () => {
  const given = await scenario('ipvs/1.36');
  const whole = given.rules('node-a', 'iptables-save').toString();
  given.file('node-a', 'iptables-save', whole + whole.replace('-A KUBE-MARK-MASQ -j MARK', '-A KUBE-MARK-MASQ -p tcp -j MARK'));
  const {findings, nodes} = diagnose(given.snapshot(), {toolVersion: '', nodes: name => name === 'node-a'});
  expect(findings.filter(({node, severity}) => node === 'node-a' && severity === 'error')).toEqual([]);
  expect(nodes[0]).toMatchObject({status: 'unread', reason: expect.stringContaining('holds two dumps of IPv4 with different rules')});
});
