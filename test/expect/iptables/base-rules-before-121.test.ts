import {describe, expect, test} from 'vitest';
import {baseRuleChains} from '../../../src/expect/iptables/base-rules.ts';
import {expectedOf, rulesIn, type Setup} from '../../kube-proxy.ts';
import {remark} from './templates.ts';

/** Sections 2.1 to 2.6 and 8 of the reference: the frame of kube-proxy 1.5 to 1.20. */
const baseRules = (setup: Setup, place: string) => rulesIn(expectedOf(setup), place);
const known = ['1.5', '1.11', '1.13', '1.14', '1.16', '1.17', '1.18.2', '1.19', '1.20'] as const;
const minorOf = (version: string) => Number(version.split('.')[1]);

describe('the jumps from base chains', () => {
  test.each(known)('of %s', version => {
    const minor = minorOf(version);
    const state = minor >= 11 ? '-m conntrack --ctstate NEW ' : '';
    const services = `${state}${remark('kubernetes service portals')} -j KUBE-SERVICES`;
    const external = `${state}${remark('kubernetes externally-visible service portals')} -j KUBE-EXTERNAL-SERVICES`;
    const forward = `${remark('kubernetes forwarding rules')} -j KUBE-FORWARD`;
    const of = (chain: string) => baseRules({version}, chain) ?? [];
    expect(of('filter/INPUT')).toEqual([...(minor >= 14 && minor <= 19 ? [services] : []), ...(minor >= 11 ? [external] : [])]);
    expect(of('filter/FORWARD')).toEqual([
      ...(minor >= 11 ? [forward] : []),
      ...(minor >= 14 ? [services] : []),
      ...(minor >= 20 ? [external] : []),
    ]);
    expect(of('filter/OUTPUT')).toEqual([services]);
    for (const chain of ['nat/PREROUTING', 'nat/OUTPUT'])
      expect(of(chain)).toEqual([`${remark('kubernetes service portals')} -j KUBE-SERVICES`]);
    expect(of('nat/POSTROUTING')).toEqual([`${remark('kubernetes postrouting rules')} -j KUBE-POSTROUTING`]);
  });

  test('lead to existing chains', () => {
    const names = (version: string) => baseRuleChains(expectedOf({version}).context).map(place => place.join('/'));
    expect(names('1.5').filter(name => name.startsWith('filter/'))).toEqual(['filter/KUBE-SERVICES']);
    for (const version of known.slice(1))
      expect(names(version).filter(name => name.startsWith('filter/'))).toEqual([
        'filter/KUBE-SERVICES',
        'filter/KUBE-EXTERNAL-SERVICES',
        'filter/KUBE-FORWARD',
      ]);
  });
});

describe('masquerading', () => {
  const text = remark('kubernetes service traffic requiring SNAT');
  const randomly = (version: string) => (minorOf(version) >= 16 ? ' --random-fully' : '');

  test.each(known.filter(version => minorOf(version) <= 18))('of %s is one rule', version => {
    expect(baseRules({version}, 'nat/KUBE-POSTROUTING')).toEqual([
      `${text} -m mark --mark 0x4000/0x4000 -j MASQUERADE${randomly(version)}`,
    ]);
    expect(baseRules({version}, 'nat/KUBE-MARK-MASQ')).toEqual(['-j MARK --set-xmark 0x4000/0x4000']);
  });

  test.each(['1.18.6', '1.19', '1.20'])('of %s clears the mark first', version => {
    expect(baseRules({version}, 'nat/KUBE-POSTROUTING')).toEqual([
      '-m mark ! --mark 0x4000/0x4000 -j RETURN',
      '-j MARK --set-xmark 0x4000/0x0',
      `${text} -j MASQUERADE --random-fully`,
    ]);
  });
});

describe('forwarding', () => {
  const invalid = '-m conntrack --ctstate INVALID -j DROP';
  const marked = `${remark('kubernetes forwarding rules')} -m mark --mark 0x4000/0x4000 -j ACCEPT`;
  const established = (direction: string, before = '') =>
    `${before}${remark(`kubernetes forwarding conntrack pod ${direction} rule`)} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`;
  const both = [established('source'), established('destination')];
  const ofPods = [established('source', '-s 10.244.0.0/16 '), established('destination', '-d 10.244.0.0/16 ')];

  test.each(['1.18', '1.19', '1.20'])('of %s accepts all replies', version => {
    expect(baseRules({version}, 'filter/KUBE-FORWARD')).toEqual([invalid, marked, ...both]);
  });

  test.each(['1.14', '1.16', '1.17'])('of %s accepts those of pods, if their network is known', version => {
    expect(baseRules({version}, 'filter/KUBE-FORWARD')).toEqual([invalid, marked, ...ofPods]);
    expect(baseRules({version, config: {clusterCIDRs: []}}, 'filter/KUBE-FORWARD')).toEqual([invalid, marked]);
  });

  test('of 1.11 and 1.13 does not drop INVALID packets; 1.5 has no such chain', () => {
    for (const version of ['1.11', '1.13']) expect(baseRules({version}, 'filter/KUBE-FORWARD')).toEqual([marked, ...ofPods]);
    expect(baseRules({version: '1.5'}, 'filter/KUBE-FORWARD')).toBeNull();
  });
});

test('the last rule jumps to the node ports, on loopback addresses too', () => {
  const note = remark('kubernetes service nodeports; NOTE: this must be the last rule in this chain');
  for (const version of known) {
    expect(baseRules({version}, 'nat/KUBE-SERVICES')).toEqual([`${note} -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS`]);
    expect(baseRules({version, config: {nodePortAddresses: ['127.0.0.0/8', '10.0.0.0/8']}}, 'nat/KUBE-SERVICES')).toEqual([
      `-d 127.0.0.1/32 ${note} -j KUBE-NODEPORTS`,
      `-d 10.9.9.9/32 ${note} -j KUBE-NODEPORTS`,
    ]);
  }
});
