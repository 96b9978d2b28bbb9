import {expectRuleset} from '../../expect/iptables/expect-ruleset.ts';
import {expectIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import {overlongNames} from '../../expect/nftables/overlong-names.ts';
import {expectTable} from '../../expect/nftables/expect-table.ts';
import {tableId} from '../../expect/nftables/expected-table.ts';
import {droppedRanges} from '../../expect/nftables/service-ranges.ts';
import type {ExpectedRules, FamilyRules} from '../../model/expected-rules.ts';
import type {Family} from '../../model/family.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {NodeSetup} from '../node-setup.ts';
import {refusedSettings} from '../refused-settings.ts';
import {iptablesTables} from './iptables-tables.ts';
import {ipvsTables, ipvsText} from './ipvs-text.ts';
import {nftTableText} from './nft-table-text.ts';

interface ExpectedRulesInput {
  readonly setup: NodeSetup;
  readonly families: readonly Family[];
  readonly isWanted: (port: ServicePort) => boolean;
  readonly notes?: readonly string[];
}

/** The rules that kube-proxy should write on a node for the chosen Service ports, in its mode. */
export function expectedRules({setup, families, isWanted, notes = []}: ExpectedRulesInput): ExpectedRules {
  const {node, config} = setup;
  const written = families.map(family => familyRules(setup, family, isWanted));
  return {
    node: node.name,
    proxyMode: config.mode.value,
    kubeProxyVersion: config.version.value.text === 'unknown' ? `v1.${config.version.value.minor}` : config.version.value.text,
    notes: [...notes, ...blockedNotes(setup), ...counterNotes(written), ...setNotes(written)],
    families: written,
  };
}

/** Neither kube-proxy nor a tool can load these rules. */
function blockedNotes({view, config, facts, dumps}: NodeSetup): readonly string[] {
  const refused = refusedSettings(config, dumps.current.values());
  if (config.mode.value !== 'nftables') return refused;
  const names = overlongNames({view, config, facts})
    .filter(({blocksSync}) => blocksSync)
    .map(
      ({family, port: {servicePortName}}) =>
        `nft refuses the name ${servicePortName} (${servicePortName.length} bytes) as a comment: this kube-proxy cannot write the rules of ${family} (ST510)`,
    );
  return [...refused, ...names];
}

/** A rule that counts is refused unless its counter is there. */
function counterNotes(families: readonly FamilyRules[]): readonly string[] {
  const rules = families.flatMap(({iptables}) => iptables.flatMap(({chains}) => chains.flatMap(chain => chain.rules)));
  const counters = new Set(rules.flatMap(rule => /--nfacct-name +(\S+)/.exec(rule)?.[1] ?? []));
  if (counters.size === 0) return [];
  return [
    `the rules count with nfacct; make the counters before they are loaded: ${[...counters].map(name => `nfacct add ${name}`).join('; ')}`,
  ];
}

/** The iptables rules of IPVS mode are refused without the sets that they match on. */
function setNotes(families: readonly FamilyRules[]): readonly string[] {
  const hasSets = families.some(({ipvs}) => (ipvs?.ipsets.length ?? 0) > 0);
  return hasSets ? ['the iptables rules match on ipsets, which must be there before they are loaded; -o json lists them'] : [];
}

/** The modes whose rules can be generated. */
export const writableModes: readonly string[] = ['iptables', 'nftables', 'ipvs'];

function familyRules(setup: NodeSetup, family: Family, isWanted: (port: ServicePort) => boolean): FamilyRules {
  const {config, view, facts} = setup;
  const none = {family, iptables: [], nftables: null, ipvs: null};
  switch (config.mode.value) {
    case 'nftables': {
      const table = setup.nft()?.tables.get(tableId(family)) ?? null;
      return {
        ...none,
        nftables: nftTableText(
          expectTable({view, config, facts, family, table, serviceRanges: droppedRanges({api: setup.api, config, family, table})}),
          isWanted,
        ),
      };
    }
    case 'ipvs': {
      const expected = expectIpvs({view, config, facts: setup.hostFacts(), family, bound: setup.bound()});
      return {...none, iptables: ipvsTables(expected, isWanted), ipvs: ipvsText(expected, isWanted)};
    }
    default: {
      const ruleset = setup.dumps.current.get(family) ?? null;
      return {...none, iptables: iptablesTables(expectRuleset({view, config, facts, family, ruleset}), isWanted)};
    }
  }
}
