import type {ExpectedTable} from '../../../expect/nftables/expected-table.ts';
import type {Severity} from '../../../model/finding.ts';
import type {NftChain, NftTableSource} from '../../../model/nft-ruleset.ts';
import {environmentOf} from '../../outcomes/environment.ts';
import {isSameOutcome} from '../../outcomes/path-outcome.ts';
import type {SymptomKind} from '../../symptoms/symptom.ts';
import {unservedPackets} from './base-chain-probes.ts';
import type {NftPortDifference} from '../nft-case.ts';
import {nftPathOutcome} from '../nft-outcome.ts';

/** What the loss of a base rule means. */
export interface BaseChainLoss {
  readonly kind: SymptomKind;
  readonly severity: Severity;
  readonly what: string;
  readonly loss: string;
}

/** What it means that a base chain, its hook, or rules of it are missing. */
export function lossOfChain(name: string, missing: readonly NftPortDifference[], found: NftChain | undefined): BaseChainLoss {
  const targets = missing.map(({rule}) => /(?:vmap @|jump |@)([\w-]+)/.exec(rule.text)?.[1] ?? '').filter(text => text !== '');
  const hook = missing.some(({what}) => what === 'hook');
  const [target = ''] = targets;
  const set = missing.find(({what}) => what === 'set');
  if (set !== undefined) return {what: `${name} is not declared as "${set.rule.text}"`, ...meaningOf(name, targets)};
  const marks = missing.some(({rule}) => rule.text.includes('@cluster-ips') && rule.text.includes('mark set'));
  const state =
    marks && targets.length === 1
      ? 'the rule of services that marks traffic to cluster IPs is missing, or another one'
      : found === undefined
        ? `the chain ${name} is missing`
        : hook
          ? `the chain ${name} hangs at another place`
          : target === ''
            ? `a rule of ${name} is missing`
            : `${target} is not reached from ${name}`;
  return {what: state, ...meaningOf(name, targets)};
}

type Meaning = Pick<BaseChainLoss, 'kind' | 'severity' | 'loss'>;

function meaningOf(name: string, targets: readonly string[]): Meaning {
  const own = ofChain[name];
  if (own !== undefined) return own;
  if (name === 'services') return ofServices(targets);
  const known = targets.flatMap(target => ofTarget[target] ?? []);
  const [first] = known;
  if (first === undefined) return {kind: 'missing-rule', severity: 'error', loss: 'traffic is affected'};
  return {...first, loss: [...new Set(known.map(({loss}) => loss))].join('; ')};
}

function ofServices(targets: readonly string[]): Meaning {
  if (targets.includes('service-ips')) return {...notHooked, loss: 'no Service works at any of its addresses'};
  if (targets.includes('service-nodeports') || targets.includes('nodeport-ips'))
    return {kind: 'node-ports-unreachable', severity: 'error', loss: 'node ports do not answer where they should'};
  return {kind: 'postrouting-broken', severity: 'warning', loss: 'traffic to cluster IPs is not marked for masquerading'};
}

const notHooked = {kind: 'services-chain-not-hooked', severity: 'error'} as const;

const postrouting: Meaning = {
  kind: 'postrouting-broken',
  severity: 'error',
  loss: 'packets are masqueraded where they should not be, or not where they should',
};

const noRefusal: Meaning = {...notHooked, loss: 'connections to Services without endpoints hang instead of being refused'};

const noLocalhostRefusal: Meaning = {
  kind: 'missing-rule',
  severity: 'info',
  loss: 'node ports on loopback addresses are not refused',
};

const noPortCheck: Meaning = {
  kind: 'missing-rule',
  severity: 'warning',
  loss: 'connections to ports that a cluster IP does not have hang instead of being refused',
};

const ofChain: Readonly<Record<string, Meaning>> = {
  'nat-prerouting': {...notHooked, loss: 'no Service works for pods and for traffic that enters the node'},
  'nat-output': {...notHooked, loss: 'no Service works for the node itself'},
  'nat-postrouting': postrouting,
  masquerading: postrouting,
  'mark-for-masquerade': postrouting,
  'reject-chain': {
    kind: 'missing-reject',
    severity: 'error',
    loss: 'connections to Services without endpoints hang instead of being refused',
  },
  'localhost-nodeport-reject-tcp': noLocalhostRefusal,
  'localhost-nodeport-reject-udp': noLocalhostRefusal,
  'localhost-nodeport-reject-sctp': noLocalhostRefusal,
  'cluster-ips-check': noPortCheck,
  forward: {kind: 'missing-rule', severity: 'info', loss: 'INVALID packets are not dropped'},
};

const ofTarget: Readonly<Record<string, Meaning>> = {
  'no-endpoint-services': noRefusal,
  'no-endpoint-nodeports': noRefusal,
  'service-endpoints-check': noRefusal,
  'nodeport-endpoints-check': noRefusal,
  'endpoints-check': noRefusal,
  'nodeport-ips': noRefusal,
  'localhost-nodeport-reject-ports': noLocalhostRefusal,
  'firewall-check': {...notHooked, loss: 'loadBalancerSourceRanges are not enforced'},
  'firewall-ips': {...notHooked, loss: 'loadBalancerSourceRanges are not enforced'},
  'cluster-ips-check': {...noPortCheck, kind: 'services-chain-not-hooked'},
};

interface CheckedTables {
  readonly expected: ExpectedTable;
  readonly table: NftTableSource;
}

/** Whether packets to ports that a cluster IP does not have end elsewhere. */
export function baseChainChecks({expected, table}: CheckedTables): boolean {
  const environment = environmentOf(expected.context.facts);
  return unservedPackets(expected).some(
    packet => !isSameOutcome(nftPathOutcome(table, packet, environment), nftPathOutcome(expected, packet, environment)),
  );
}
