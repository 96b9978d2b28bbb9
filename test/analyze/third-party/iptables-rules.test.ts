import {describe, expect, test} from 'vitest';
import {readDumps} from '../../../src/analyze/iptables/node-rulesets.ts';
import {holdsThirdPartyRules, isIpvsChain, isKubeProxyChain} from '../../../src/analyze/third-party/iptables-rules.ts';
import {withRule} from '../../editable-dump.ts';
import {captureNames, snapshotOf, withFiles} from '../../fixtures.ts';

/** Whether a node of a capture holds rules of other programs, with one rule more. */
async function holdsOthers(capture: string, isOwnChain: typeof isIpvsChain, rule = ''): Promise<boolean> {
  const {nodes} = await snapshotOf(capture);
  return nodes.some(node => {
    const dump = node.read('iptables-save')?.toString() ?? '';
    const changed = rule === '' ? node : withFiles(node, {'iptables-save': withRule('filter', rule)(dump)});
    return [...readDumps(changed).current.values()].some(ruleset => holdsThirdPartyRules(ruleset, isOwnChain));
  });
}

describe('packets are not walked for rules of other programs', () => {
  test.each(captureNames('healthy'))('on healthy nodes in iptables mode: %s', async name => {
    expect(await holdsOthers(name, isKubeProxyChain)).toBe(false);
  });

  test.each(captureNames('ipvs'))('on healthy nodes in IPVS mode, with the jumps that only they have: %s', async name => {
    expect(await holdsOthers(name, isIpvsChain)).toBe(false);
  });
});

describe('a jump to a chain of kube-proxy in IPVS mode is that of another program', () => {
  test.each(['-A OUTPUT -j KUBE-IPVS-FILTER', '-A FORWARD -j KUBE-NODE-PORT', '-A INPUT -j KUBE-IPVS-OUT-FILTER'])(
    'from a base chain that has none: %s',
    async rule => {
      expect(await holdsOthers('ipvs/1.36', isIpvsChain, rule)).toBe(true);
    },
  );

  test('in iptables mode', async () => {
    expect(await holdsOthers('healthy/1.36-iptables', isKubeProxyChain, '-A INPUT -j KUBE-IPVS-FILTER')).toBe(true);
  });
});
