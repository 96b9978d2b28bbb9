import {expect, test} from 'vitest';
import {parseAddress} from '../../../src/model/address.ts';
import type {Probe} from '../../../src/analyze/outcomes/probes.ts';
import {classesOfProbe, clientPorts, type SenderGroups} from '../../../src/analyze/outcomes/senders.ts';
import {packetOf} from '../../trace/send.ts';

const numberOf = (text: string): bigint => parseAddress(text)?.value ?? 0n;
const groups: SenderGroups = {
  spaces: new Map([['pod', [[numberOf('10.244.1.0'), numberOf('10.244.1.255')]]]]),
  pods: new Map([[numberOf('10.244.1.9'), 'shop/web-1']]),
  nodes: new Map(),
  arePodsUnknown: false,
  areRoutedSingly: true,
};
const probe: Probe = {
  entry: {kind: 'clusterIP', address: '10.96.0.7', port: 80},
  source: {kind: 'pod', address: '10.244.1.200', interface: null},
  packet: packetOf({from: '10.244.1.200', to: '10.96.0.7', port: 80}),
  knownTo: new Set(),
};

/** Walks that tell the lower half of the pods from the upper one. */
function halves(most: number): ReturnType<typeof classesOfProbe<string>> {
  return classesOfProbe(probe, {groups, except: [], ports: [clientPorts], most}, ({packet}, note) => {
    const half = numberOf('10.244.1.128');
    note('address', packet.source.value < half ? [[0n, half - 1n]] : [[half, numberOf('255.255.255.255')]]);
    return packet.source.text;
  });
}

test('a class without a running pod is hit on purpose, and one with a pod is named by it', () => {
  const {classes, isTruncated} = halves(10);
  expect(isTruncated).toBe(false);
  expect(classes.map(([{senders}, walked]) => [walked, senders])).toEqual([
    // Routes may lead to a running pod alone, so it is walked first.
    ['10.244.1.9', {text: '10.244.1.0/25 (pod shop/web-1)', pods: ['shop/web-1']}],
    ['10.244.1.200', {text: '10.244.1.128/25', pods: [], most: 'info'}],
  ]);
});

test('above the number of classes the rest is not walked, which is said', () => {
  const {classes, isTruncated} = halves(1);
  expect([classes.length, isTruncated]).toEqual([1, true]);
});
