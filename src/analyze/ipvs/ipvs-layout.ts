import {compareServers} from '../../compare/compare-ipvs.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import type {FormerOwner} from '../../expect/cluster/service-states.ts';
import type {Hypothesis} from '../../expect/node-context.ts';
import type {ServedPort} from '../../model/endpoint.ts';
import {once} from '../../model/once.ts';
import type {ChainSource, Difference, Ruleset, RuleText} from '../../model/ruleset.ts';
import {serverKey, type VirtualServer} from '../../model/virtual-server.ts';
import type {FamilyLayout, FamilyRules} from '../analyze-family.ts';
import {replaced} from '../iptables/chain-texts.ts';
import {hookedChains} from '../iptables/resolve-version.ts';
import {noServiceRules, withEffect} from '../symptoms/node-symptoms.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {isIpvsChain} from '../third-party/iptables-rules.ts';
import {analyzeIpvsBaseRules} from './analyze-ipvs-base-rules.ts';
import {analyzeIpvsPort} from './analyze-ipvs-port.ts';
import {baseRuleSource, type IpvsSides, sidesOf} from './base-rule-source.ts';
import {compareIpvs, type IpvsDifferences, serversOf, type IpvsState} from './ipvs-state.ts';
import {addressEvidence} from './ipvs-evidence.ts';
import {mergeByNode, staleServers} from './stale-servers.ts';

interface IpvsFamily {
  readonly expect: (hypothesis: Hypothesis) => ExpectedIpvs;
  readonly state: IpvsState;
  /** Null when there is no dump of the family. */
  readonly ruleset: Ruleset | null;
  readonly formerOwner: FormerOwner;
}

type IpvsDifference = Difference<ServedPort, RuleText>;

type IpvsFamilyRules = FamilyRules<ExpectedIpvs, ServedPort, IpvsDifference> & {
  /** The two sides to walk packets through. */
  readonly sidesOf: (expected: ExpectedIpvs) => IpvsSides;
};

/** One family of a node: its virtual servers, sets and addresses, and the rules around them. */
export function ipvsFamily({expect, state, ruleset, formerOwner}: IpvsFamily): IpvsFamilyRules {
  const compared = once((expected: ExpectedIpvs) => {
    const differences = compareIpvs(expected, state);
    const device = deviceGone(expected, differences);
    return {differences, device, sides: sidesOf({expected, differences, state, ruleset, deviceGone: device !== null})};
  });
  const actual = once(({context: {family}}: ExpectedIpvs) => {
    const own = (state.servers ?? []).filter(server => server.family === family);
    return new Map(own.map(server => [serverKey(server), server]));
  });
  return {
    expect,
    textOf: serversText,
    fits: (expected, item) => fits(expected, item, actual(expected)),
    // Pods are detected by sets and one base rule, which is evaluated separately.
    otherDetector: () => null,
    lacksServices: plain => {
      const serves = [...plain.servers.values()].some(([first]) => (first?.server.realServers ?? []).length > 0);
      if (!serves || actual(plain).size > 0) return null;
      return [noServiceRules(`IPVS holds none of the ${plain.servers.size} virtual servers`, plain)];
    },
    layoutOf: (expected, {rules, senders}) => {
      const {differences, device, sides} = compared(expected);
      return {
        ...withoutOwnRules,
        differs: [...differences.byPort.values()].some(own => own.servers.length + own.members.length > 0),
        known: new Map(
          [...differences.byPort].map(([item, own]) => {
            const ofPort = device === null ? own : {...own, missingAddresses: []};
            const parts = Object.entries(own).flatMap(([part, all]) => all.map(() => part));
            return [item, {parts, symptoms: () => analyzeIpvsPort({item, differences: ofPort, expected, sides})}];
          }),
        ),
        analyzeBaseRules: () => [
          ...(device === null ? [] : [device]),
          ...wrongSets(expected, differences),
          ...(ruleset === null ? [] : analyzeIpvsBaseRules({expected, ruleset, sides, sets: state.sets, senders})),
        ],
        // The base rules are assumed to be as expected; if one of the jumps to them is missing, that is a fault of theirs.
        besideThirdParty: () => {
          const baseRules = baseRuleSource(expected);
          if (ruleset === null || !holdsJumps(ruleset, baseRules)) return null;
          const ownChain = (table: string, name: string) => (name.startsWith('KUBE-') ? baseRules.chain(table, name) : undefined);
          const beside = replaced(ruleset, (table, name) => ownChain(table, name) ?? ruleset.chain(table, name));
          const {environment} = sides.actual;
          const others = rules.iptables.filter(({backend}) => backend !== ruleset.backend);
          return {
            rules: {...rules, iptables: [ruleset, ...others]},
            sides: {
              should: sides.expected,
              does: {...sides.actual, iptables: [baseRules]},
              all: {iptables: [beside, ...others], nft: rules.nft(), environment},
            },
            mode: {masquerading: 'KUBE-POSTROUTING', isOwnChain: isIpvsChain},
          };
        },
        others: () => staleServers({expected, differences, state, formerOwner}),
        merge: symptoms => mergeByNode(symptoms, {expected, differences, state, ruleset}),
      };
    },
    sidesOf: expected => compared(expected).sides,
  };
}

/** Service ports have virtual servers, and no rules of their own. */
const withoutOwnRules = {
  differences: [],
  sharedPlaces: [],
  concerned: () => [],
  isUnexpected: () => false,
  partOf: () => '',
  leads: () => [],
  analyzePort: () => [],
  nameOf: () => '',
  answers: () => false,
  analyzeUnnamed: () => [],
} satisfies Partial<FamilyLayout<ServedPort, IpvsDifference>>;

function holdsJumps(ruleset: Ruleset, baseRules: ChainSource): boolean {
  return [...hookedChains].every(key => {
    const [table = '', name = ''] = key.split('/');
    const rules = ruleset.chain(table, name)?.rules() ?? [];
    const targets = new Set(rules.map(({target}) => target?.name));
    return (baseRules.chain(table, name)?.rules() ?? []).every(({target}) => targets.has(target?.name));
  });
}

/** kube-ipvs0 has none of the addresses: it is missing, or lost all of them. */
function deviceGone({context: {family}, bound}: ExpectedIpvs, {missingAddresses}: IpvsDifferences): Symptom | null {
  if (missingAddresses.length < 2 || missingAddresses.length !== bound.size) return null;
  const what = `kube-ipvs0 is missing or has none of the ${bound.size} addresses of Services`;
  const texts = withEffect(what, 'packets to Services are not accepted, and none works except for the node itself');
  const expected = missingAddresses.slice(0, 4).map(address => addressEvidence(address, 0));
  return {kind: 'services-chain-not-hooked', variant: 'addresses-not-accepted', family, port: null, ...texts, expected, actual: []};
}

/** A set of another type makes every sync of kube-proxy stop at it. */
function wrongSets({context: {family}}: ExpectedIpvs, {wrongSets: sets}: IpvsDifferences): readonly Symptom[] {
  return sets.map(({set, found, wanted}) => {
    const base = {family, port: null, expected: [], actual: []} as const;
    if (found === null)
      return {...base, kind: 'missing-rule', severity: 'warning', detail: `ipset ${set} is missing: rules that match it cannot be loaded`};
    const detail = `ipset ${set} is of type ${found} and not ${wanted}: kube-proxy stops at it, and no change reaches this node any more`;
    return {...base, kind: 'unexpected-rule', severity: 'error', detail};
  });
}

function serversText(expected: ExpectedIpvs, item: ServedPort): string {
  return serversOf(expected, item)
    .map(
      ({text, realServers}) =>
        `${text} ${realServers
          .map(({hostPort}) => hostPort)
          .sort()
          .join(' ')}`,
    )
    .join('\n');
}

function fits(expected: ExpectedIpvs, item: ServedPort, actual: ReadonlyMap<string, VirtualServer>): boolean {
  return serversOf(expected, item).every(server => {
    const found = actual.get(serverKey(server));
    return found !== undefined && compareServers(server, found) === null;
  });
}
