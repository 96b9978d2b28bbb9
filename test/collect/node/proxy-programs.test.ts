import {describe, expect, test} from 'vitest';
import {readDumps} from '../../../src/analyze/iptables/node-rulesets.ts';
import {misprintsOf} from '../../../src/analyze/iptables/misprints.ts';
import {collectNode} from '../../../src/collect/node/collect-node.ts';
import {CommandFailed, type Transport} from '../../../src/collect/node/transport.ts';
import {readFixture} from '../../fixtures.ts';
import {headedBy, reprints} from '../../reprints.ts';
import {nodeAt} from '../transports/sshd.ts';

const right = readFixture('captures/healthy/1.36-iptables/nodes/node-a/iptables-save').toString();
const {'1.8.7': by187 = (dump: string) => dump} = reprints;
const nft = readFixture('captures/nftables/1.36/nodes/node-a/nft.json').toString();
const nftBy102 = nft
  .replace('"version": "1.0.6"', '"version": "1.0.2"')
  .replaceAll('{"payload": {"protocol": "ip", "field": "saddr"}}', '{"payload": {"base": "nh", "offset": 96, "len": 16}}');

/** Reads a node that answers these commands, and has no other program; with the commands that are no part of every read. */
async function collected(answers: Readonly<Record<string, string>>) {
  const commands: string[] = [];
  const transport: Transport = {
    name: 'fake',
    open: async () => ({
      description: 'fake',
      run: async argv => {
        const command = argv.join(' ');
        if (/^(?:nsenter|pidof|pgrep)/.test(command)) commands.push(command);
        const answer = answers[command];
        if (answer === undefined) throw new CommandFailed(argv, {exitCode: 127, stderr: 'not found', notFound: true});
        return Buffer.from(answer);
      },
      [Symbol.asyncDispose]: async () => {},
    }),
  };
  const node = await collectNode(nodeAt(), transport, {signal: new AbortController().signal, timeoutMs: 600_000});
  return {node, commands};
}

const version187 = {'iptables-save --version': 'iptables-save v1.8.7 (nf_tables)\n'};

describe('rules that the programs of the host misprint', () => {
  test('are read with those of kube-proxy', async () => {
    const {node, commands} = await collected({
      ...version187,
      'iptables-save': by187(right),
      'pidof kube-proxy': '4711\n',
      'nsenter -t 4711 -m -- iptables-save': right,
    });
    expect(commands).toEqual(['pidof kube-proxy', 'nsenter -t 4711 -m -- iptables-save']);
    expect(node.read('iptables-nft-save')?.equals(Buffer.from(right))).toBe(true);
    const dumps = readDumps(node);
    expect(misprintsOf(dumps.current).size).toBe(0);
    expect(dumps.both).toEqual([]);
  });

  test('stay as they are where there is no process of kube-proxy', async () => {
    const {node, commands} = await collected({...version187, 'iptables-save': by187(right)});
    expect(commands).toEqual(['pidof kube-proxy', 'pgrep -x kube-proxy']);
    expect(misprintsOf(readDumps(node).current).get('IPv4')?.what).toContain('show no port');
  });

  test('stay as they are where its namespace may not be entered, and the report says why', async () => {
    const {node} = await collected({...version187, 'iptables-save': by187(right), 'pgrep -x kube-proxy': '4711\n4712\n'});
    expect(node.missing).toContainEqual({file: 'iptables-nft-save', reason: 'nsenter not found: not found'});
  });

  test.each([
    ['rules of nft', nftBy102],
    ['no rules, because nft crashed', undefined],
  ])('of nft are read with that of kube-proxy: %s', async (_, printed) => {
    const {node} = await collected({
      'nft list flowtables': 'table ip kube-proxy {\n}\n',
      ...(printed === undefined ? {} : {'nft -j list table ip kube-proxy': printed}),
      'pidof kube-proxy': '4711\n',
      'nsenter -t 4711 -m -- nft -j list ruleset': nft,
    });
    expect(node.read('nft-ruleset.json')?.equals(Buffer.from(nft))).toBe(true);
  });
});

test.each(['1.8.7', '1.8.9'])('rules that %s prints as they are are read once', async version => {
  const {commands} = await collected({...version187, 'iptables-save': headedBy(version, right), 'pidof kube-proxy': '4711\n'});
  expect(commands).toEqual([]);
});
