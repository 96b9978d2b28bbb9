import {expect, test} from 'vitest';
import {describeWith} from '../require.ts';
import {examineAll} from './examine.ts';
import {type Mode, modes} from './laboratory.ts';
import {scenarios} from './scenarios.ts';

/** What is judged wrong until now, in all modes or in some. What has become right fails here, and is taken off. */
const notYet: {readonly check: NotYet; readonly packet: NotYet} = {
  check: {
    'netdev-ingress-client': ['legacy', 'nft'],
    'netdev-ingress-pod': modes,
    'forward-drop-cali-accepts': ['legacy', 'nft'],
    'return-in-node-ports': ['legacy', 'nft'],
    'cali5-forwarding-off': modes,
    'pods-of-node-b-blackholed': modes,
    'rule-prohibits-pod': modes,
  },
  packet: {
    'calico-other-backend-one-missing': ['legacy'],
    'kube-router-closed': ['legacy'],
    'portmap-on-node-port': ['nftables'],
    'nft-forward-established-only': ['legacy'],
    'nft-dnat-other-pod': ['legacy', 'nft'],
    'netdev-ingress-client': modes,
    'netdev-ingress-pod': modes,
    'ban-everyone-outside': ['nftables'],
    'far-pods-to-one-pod': ['nftables'],
    'zone-of-one-side': ['legacy', 'nft'],
    'replies-notrack': ['legacy', 'nft'],
    'snat-not-of-the-node': modes,
    'accept-pods-before-masquerade': ['legacy', 'nft'],
    'connmark-restore': modes,
    'mark-without-mask': ['legacy', 'nft'],
    'mark-drop-of-others': ['nftables'],
    'random-drop': ['nftables'],
    'cali5-forwarding-off': modes,
  },
};

type NotYet = Readonly<Record<string, readonly Mode[]>>;

describeWith(
  ['root', 'netns', 'nsenter', 'ip', 'sysctl', 'conntrack', 'ipset', 'nft', 'iptables-legacy-restore'],
  'with rules of other programs',
  () => {
    test.concurrent.each(modes)('check and packet say what the kernel does, in mode %s', {timeout: 600_000}, async mode => {
      const wrong = {check: new Map<string, readonly string[]>(), packet: new Map<string, readonly string[]>()};
      for await (const {scenario, judgement} of examineAll(mode, scenarios))
        for (const kind of ['check', 'packet'] as const) if (judgement[kind].length > 0) wrong[kind].set(scenario.name, judgement[kind]);
      for (const kind of ['check', 'packet'] as const) {
        const expected = Object.entries(notYet[kind]).flatMap(([name, those]) => (those.includes(mode) ? [name] : []));
        const news = [...wrong[kind]].filter(([name]) => !expected.includes(name));
        expect(Object.fromEntries(news), `what ${kind} says wrongly`).toEqual({});
        expect(
          expected.filter(name => !wrong[kind].has(name)),
          `what ${kind} says rightly by now`,
        ).toEqual([]);
      }
    });
  },
);
