import {expect, test} from 'vitest';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {diagnose} from '../../src/diagnose.ts';
import {snapshotOf, withFiles} from '../fixtures.ts';

/** The state of node-a with another file, and the findings of it that name it. */
async function nodeA(capture: string, file: string, change: (own: string, other: string) => string) {
  const snapshot: Snapshot = await snapshotOf(capture);
  const [own, other = own] = snapshot.nodes;
  if (own === undefined || other === undefined) throw new Error(`${capture} has no node`);
  const text = change(own.read(file)?.toString() ?? '', other.read(file)?.toString() ?? '');
  const {findings} = diagnose({...snapshot, nodes: [withFiles(own, {[file]: text})]}, {toolVersion: '0.0.0'});
  return findings.filter(({code}) => !code.startsWith('ST1')).map(({code, message}) => `${code} ${message}`);
}

const iptables = 'healthy/1.36-iptables';
const [error, errorOf] = ['error: unexpected EOF', 'that is no rule (line'];

test('an error in the place of a rule of iptables is named, and no rule is called missing', async () => {
  const found = await nodeA(iptables, 'iptables-save', own => own.replace(/^-A KUBE-SVC.*$/m, error));
  expect(found.filter(text => /^ST2/.test(text))).toEqual([]);
  expect(found.some(text => text.startsWith('ST506') && text.includes(error) && text.includes(errorOf))).toBe(true);
});

test('two different dumps of a family in one file leave it unread, and the same dump twice does not', async () => {
  const two = await nodeA(iptables, 'iptables-save', (own, other) => own + other);
  expect(two.some(text => text.includes('its iptables-save holds two dumps of IPv4 with different rules'))).toBe(true);
  expect(two.filter(text => /^ST2/.test(text))).toEqual([]);
  expect(await nodeA(iptables, 'iptables-save', own => own + own)).toEqual(await nodeA(iptables, 'iptables-save', own => own));
});

test('two dumps of nftables leave the node unread', async () => {
  const two = await nodeA('nftables/1.36', 'nft.json', (own, other) => own + other);
  expect(two.some(text => /its nft.json is several dumps: table \S+ kube-proxy has the set \S+ twice/.test(text))).toBe(true);
});

test.each([
  ['its last brace', (own: string) => own.trimEnd().slice(0, -1)],
  ['a second document', (own: string) => `${own}{"nfta`],
])('nft JSON without %s is truncated', async (_, change) => {
  const found = await nodeA('nftables/1.36', 'nft.json', change);
  expect(found.some(text => text.startsWith('ST506 the dump of nftables is truncated'))).toBe(true);
});

test.each([
  ['ipvsadm-save', 'of its ipvsadm-save is not what ipvsadm prints'],
  ['ipset-save', 'of its ipset-save is not what ipset prints'],
])('an error inside %s is named', async (file, message) => {
  const found = await nodeA('ipvs/1.36', file, own => own.replace(/\n.*\n$/, `\n${error}\n`));
  expect(found.some(text => text.includes(message) && text.includes(error))).toBe(true);
});
