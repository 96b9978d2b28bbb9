import {describe, expect, test} from 'vitest';
import * as shared from '../../../src/expect/cluster/proxy-versions.ts';
import * as versions from '../../../src/expect/iptables/iptables-versions.ts';
import type {KubeProxyVersion} from '../../../src/model/proxy-config.ts';
import {version} from '../../kube-proxy.ts';

type Gates = Readonly<Record<string, boolean>>;

describe('a difference between versions', () => {
  // The last version without it and the first with it; sections 2 to 4 and 8 of the reference.
  const since: Readonly<Record<string, readonly [first: number, holds: (version: KubeProxyVersion) => boolean]>> = {
    hasExternalChains: [24, shared.hasExternalChains],
    dropsInFilter: [25, versions.dropsInFilter],
    hasProxyFirewall: [25, versions.hasProxyFirewall],
    explainsFirewallChain: [27, versions.explainsFirewallChain],
    writesKubeFirewall: [27, versions.writesKubeFirewall],
    excludesLocalhost: [26, versions.excludesLocalhost],
    masqueradesInServiceChain: [22, versions.masqueradesInServiceChain],
    hasSingleConntrackRule: [23, versions.hasSingleConntrackRule],
    skipsInvalidDropWhenLiberal: [29, versions.skipsInvalidDropWhenLiberal],
    countsWithNfacct: [31, versions.countsWithNfacct],
    zeroRangeMeansAll: [34, shared.zeroRangeMeansAll],
    honorsPolicyOfExternalIPs: [29, shared.honorsPolicyOfExternalIPs],
    prefersNotTerminating: [36, shared.prefersNotTerminating],
    'honorsIPMode with default gates': [30, v => shared.honorsIPMode(v, {})],
    'honorsIPMode with its gate on': [29, v => shared.honorsIPMode(v, {LoadBalancerIPMode: true})],
    'honorsIPMode with its gate off': [35, v => shared.honorsIPMode(v, {LoadBalancerIPMode: false})],
    'honorsInternalPolicy with default gates': [22, v => shared.honorsInternalPolicy(v, {})],
    'usesTerminatingEndpoints with default gates': [26, v => shared.usesTerminatingEndpoints(v, {})],
    'usesTerminatingEndpoints with its gate on': [22, v => shared.usesTerminatingEndpoints(v, {ProxyTerminatingEndpoints: true})],
    'usesTerminatingEndpoints with its gate off': [28, v => shared.usesTerminatingEndpoints(v, {ProxyTerminatingEndpoints: false})],
    'honorsNodeHints with default gates': [34, v => shared.honorsNodeHints(v, {})],
    'honorsNodeHints with its gate on': [33, v => shared.honorsNodeHints(v, {PreferSameTrafficDistribution: true})],
    'honorsNodeHints with its gate off': [35, v => shared.honorsNodeHints(v, {PreferSameTrafficDistribution: false})],
    hasCanary: [16, versions.hasCanary],
    masqueradesRandomly: [16, versions.masqueradesRandomly],
    cutsShortLocalTraffic: [16, versions.cutsShortLocalTraffic],
    'decimalsOfProbability are ten': [17, v => versions.decimalsOfProbability(v) === 10],
    forwardsAllEstablished: [18, versions.forwardsAllEstablished],
    'clearsMasqueradeMark where nothing is seen': [19, v => versions.clearsMasqueradeMark(v, null)],
    'clearsMasqueradeMark where the node does not': [19, v => versions.clearsMasqueradeMark(v, false)],
    'clearsMasqueradeMark where the node does': [5, v => versions.clearsMasqueradeMark(v, true)],
    'dropsInvalid where nothing is seen': [14, v => versions.dropsInvalid(v, null)],
    'dropsInvalid where the node does not': [15, v => versions.dropsInvalid(v, false)],
    refusesForwarded: [14, versions.refusesForwarded],
    refusesForwardedToExternal: [20, versions.refusesForwardedToExternal],
    acceptsHealthChecks: [21, versions.acceptsHealthChecks],
    'appliesPolicyToExternalIPs with default gates': [20, v => versions.appliesPolicyToExternalIPs(v, {})],
    'appliesPolicyToExternalIPs with its gate on': [18, v => versions.appliesPolicyToExternalIPs(v, {ExternalPolicyForExternalIP: true})],
    'appliesPolicyToExternalIPs with its gate off': [21, v => versions.appliesPolicyToExternalIPs(v, {ExternalPolicyForExternalIP: false})],
    'servesBothFamilies with default gates': [21, v => versions.servesBothFamilies(v, {})],
    'refusesLoadBalancerIn any chain': [14, v => versions.refusesLoadBalancerIn(v) !== null],
    'refusesLoadBalancerIn KUBE-EXTERNAL-SERVICES': [20, v => versions.refusesLoadBalancerIn(v) === 'KUBE-EXTERNAL-SERVICES'],
    hasForwardChain: [9, versions.hasForwardChain],
    refusesExternalEntries: [11, versions.refusesExternalEntries],
    hooksNewConnectionsOnly: [11, versions.hooksNewConnectionsOnly],
    leavesOutEmptyServices: [11, versions.leavesOutEmptyServices],
    keepsAffinityUnderLocalPolicy: [11, versions.keepsAffinityUnderLocalPolicy],
  };

  const until: typeof since = {
    nodePortsNeedAddress: [26, versions.nodePortsNeedAddress],
    numbersBalancingRules: [22, versions.numbersBalancingRules],
    ensuresMarkDrop: [24, versions.ensuresMarkDrop],
    hasSharedSelector: [35, shared.hasSharedSelector],
    keepsAddressSpelling: [30, shared.keepsAddressSpelling],
    sortsWithinSlice: [30, shared.sortsWithinSlice],
    mergesByAddress: [21, shared.mergesByAddress],
    deletesLocalChains: [27, versions.deletesLocalChains],
    endsUnnamedPortWithColon: [19, shared.endsUnnamedPortWithColon],
    excludesBridgedExternalIPs: [20, versions.excludesBridgedExternalIPs],
    knowsReadyEndpointsOnly: [20, shared.knowsReadyEndpointsOnly],
    masqueradesTwice: [10, versions.masqueradesTwice],
    readsPolicyAnnotation: [6, shared.readsPolicyAnnotation],
    'readsEndpoints with default gates': [18, v => shared.readsEndpoints(v, {})],
    'readsEndpoints with its gate on': [16, v => shared.readsEndpoints(v, {EndpointSliceProxying: true})],
    'writesExternalIPs with its gate off': [35, v => shared.writesExternalIPs(v, {AllowServiceExternalIPs: false})],
    'readsEndpoints with its gate off': [21, v => shared.readsEndpoints(v, {EndpointSliceProxying: false})],
  };

  const minors = Array.from({length: 32}, (_, index) => 5 + index);

  test.each(Object.entries(since))('%s from 1.%i on', (_, [first, holds]) => {
    for (const minor of minors) expect(holds(version(`1.${minor}`)), `1.${minor}`).toBe(minor >= first);
  });

  test.each(Object.entries(until))('%s up to 1.%i', (_, [last, holds]) => {
    for (const minor of minors) expect(holds(version(`1.${minor}`)), `1.${minor}`).toBe(minor <= last);
  });

  test('external IPs are served unless a gate disables them', () => {
    for (const minor of minors) expect(shared.writesExternalIPs(version(`1.${minor}`), {})).toBe(true);
  });

  test('kube-proxy knows the address of the node up to 1.20, and again from 1.28 on for one family and from 1.29 on for both', () => {
    for (const minor of minors) {
      expect(versions.knowsNodeIP(version(`1.${minor}`), true), `1.${minor}`).toBe(minor <= 20 || minor >= 28);
      expect(versions.knowsNodeIP(version(`1.${minor}`), false), `1.${minor}`).toBe(minor <= 20 || minor >= 29);
    }
  });

  test('packets to the node jump to filter/KUBE-SERVICES in 1.14 to 1.19', () => {
    for (const minor of minors) expect(versions.hooksServicesFromInput(version(`1.${minor}`))).toBe(minor >= 14 && minor <= 19);
  });

  test('topologyKeys apply with their gate, from 1.17 to 1.21, if slices are read', () => {
    const gates = {ServiceTopology: true, EndpointSliceProxying: true};
    for (const minor of minors) {
      expect(shared.honorsTopologyKeys(version(`1.${minor}`), gates), `1.${minor}`).toBe(minor >= 17 && minor <= 21);
      expect(shared.honorsTopologyKeys(version(`1.${minor}`), {}), `1.${minor}`).toBe(false);
    }
    expect(shared.honorsTopologyKeys(version('1.18'), {ServiceTopology: true})).toBe(false);
    expect(shared.honorsTopologyKeys(version('1.20'), {ServiceTopology: true})).toBe(true);
  });

  test('late patches of 1.18 clear the mark', () => {
    expect(['1.18.2', '1.18.6', '1.17.9'].map(text => versions.clearsMasqueradeMark(version(text), null))).toEqual([false, true, false]);
  });

  test('versions whose sources were not available name their neighbors', () => {
    const unknown = minors.filter(minor => versions.neighborsOf(version(`1.${minor}`)) !== null);
    expect(unknown).toEqual([6, 7, 8, 9, 10, 12, 15, 19]);
    expect(versions.neighborsOf(version('1.8'))).toEqual({bounds: [11, 5], certain: false});
    expect(versions.neighborsOf(version('1.19'))?.certain).toBe(true);
  });

  test('internal policy Local depends on its gate', () => {
    expect(shared.honorsInternalPolicy(version('1.21'), {ServiceInternalTrafficPolicy: true})).toBe(true);
    expect(shared.honorsInternalPolicy(version('1.22'), {ServiceInternalTrafficPolicy: false})).toBe(false);
  });
});

describe('zone hints (section 4.6)', () => {
  const hints = 'service.kubernetes.io/topology-aware-hints';
  const mode = 'service.kubernetes.io/topology-mode';

  const rows: readonly (readonly [
    minors: readonly number[],
    gates: Gates,
    annotations: Readonly<Record<string, string>>,
    used: boolean,
  ])[] = [
    // An alpha gate, off, up to 1.23; then the annotation says Auto.
    [[21, 22, 23], {}, {[hints]: 'Auto'}, false],
    [[21, 22, 23], {TopologyAwareHints: true}, {[hints]: 'Auto'}, true],
    [[21, 22, 23], {TopologyAwareHints: true}, {[hints]: 'auto'}, true],
    [[21, 22, 23], {TopologyAwareHints: true}, {}, false],
    [[24, 25, 26], {}, {[hints]: 'Auto'}, true],
    [[24, 25, 26], {}, {[hints]: 'auto'}, true],
    [[24, 25, 26], {}, {[hints]: 'AUTO'}, false],
    [[24, 25, 26], {}, {[hints]: 'PreferZone'}, false],
    [[24, 25, 26], {}, {[mode]: 'Auto'}, false],
    [[24, 25, 26], {}, {}, false],
    [[24, 25, 26], {TopologyAwareHints: false}, {[hints]: 'Auto'}, false],
    // 1.27 to 1.30: any value but empty and disabled, under the old name first.
    [[27, 28, 29, 30], {}, {[hints]: 'Auto'}, true],
    [[27, 28, 29, 30], {}, {[mode]: 'Auto'}, true],
    [[27, 28, 29, 30], {}, {[mode]: 'PreferZone'}, true],
    [[27, 28, 29, 30], {}, {[mode]: 'disabled'}, false],
    [[27, 28, 29, 30], {}, {[mode]: 'Disabled'}, false],
    [[27, 28, 29, 30], {}, {[mode]: ''}, false],
    [[27, 28, 29, 30], {}, {[hints]: '', [mode]: 'Auto'}, false],
    [[27, 28, 29, 30], {}, {[hints]: 'Auto', [mode]: 'Disabled'}, true],
    [[27, 28, 29, 30], {}, {}, false],
    [[27, 28, 29, 30, 31, 32], {TopologyAwareHints: false}, {[hints]: 'Auto'}, false],
    // From 1.31 the hints alone.
    [[30], {ServiceTrafficDistribution: true}, {}, true],
    [[31, 32, 33, 34, 35, 36, 37], {}, {}, true],
    [[31, 32, 33, 34, 35, 36], {}, {[mode]: 'Disabled'}, true],
    [[31, 32], {ServiceTrafficDistribution: false}, {}, false],
    [[31, 32], {ServiceTrafficDistribution: false}, {[mode]: 'Auto'}, true],
    [[33, 34, 35, 36], {ServiceTrafficDistribution: false, TopologyAwareHints: false}, {}, true],
  ];

  test.each(rows)('of kube-proxy 1.%j with gates %j and annotations %j are used: %j', (minors, gates, annotations, used) => {
    for (const minor of minors) expect(shared.honorsZoneHints(version(`1.${minor}`), gates, annotations), `1.${minor}`).toBe(used);
  });
});
