import {heldIn} from '../../model/once.ts';
import {hasCiliumTables} from '../../expect/cilium/cilium-node.ts';
import {baseRuleChains, canaryChain, canaryTables} from '../../expect/iptables/base-rules.ts';
import {expectRuleset} from '../../expect/iptables/expect-ruleset.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import {type ExpectedIpvs, expectIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import {firewallsInNat, setName, setTypes} from '../../expect/ipvs/ipvs-sets.ts';
import {droppedRanges} from '../../expect/nftables/base-chains.ts';
import {setComments, type SetShape} from '../../expect/nftables/set-elements.ts';
import {localhostCounter, rejectedOnLocalhost} from '../../expect/nftables/nft-names.ts';
import {expectTable} from '../../expect/nftables/expect-table.ts';
import {type ExpectedTable, proxyTableId} from '../../expect/nftables/expected-table.ts';
import {commentsObjects} from '../../expect/nftables/nft-versions.ts';
import {overlongNames} from '../../expect/nftables/overlong-names.ts';
import type {Family} from '../../model/address.ts';
import type {ExpectedRules, FamilyRules, IpvsText, NftChainText, NftSetText, NftTableText, RuleTable} from '../../model/expected-rules.ts';
import type {NftHook} from '../../model/nft-ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {priorityText} from '../../parse/nftables/nft-dump-chain.ts';
import {type NodeSetup, refusedSettings} from '../sides.ts';

interface ExpectedRulesInput {
  readonly setup: NodeSetup;
  readonly families: readonly Family[];
  readonly isWanted: (port: ServicePort) => boolean;
  readonly notes?: readonly string[];
  /** See `ExpectedRules`. */
  readonly isWhole?: boolean;
}

/** The rules that kube-proxy should write on a node for the chosen Service ports, in its mode. */
export function expectedRules({setup, families, isWanted, notes = [], isWhole = true}: ExpectedRulesInput): ExpectedRules {
  const {node, config} = setup;
  const written = families.map(family => familyRules(setup, {family, isWanted, isWhole})).filter(one => isWhole || hasRules(one));
  return {
    node: node.name,
    proxyMode: config.mode.value,
    kubeProxyVersion: config.version.value.text === 'unknown' ? `v1.${config.version.value.minor}` : config.version.value.text,
    notes: [...notes, ...ciliumNotes(setup), ...blockedNotes(setup), ...counterNotes(written), ...setNotes(written)],
    families: written,
    isWhole,
  };
}

function hasRules({iptables, nftables, ipvs}: FamilyRules): boolean {
  return iptables.length > 0 || (nftables?.sets ?? []).length > 0 || (ipvs?.virtualServers ?? []).length > 0;
}

function ciliumNotes({node}: NodeSetup): readonly string[] {
  return hasCiliumTables(node) ? ['Cilium serves Services on this node: these are the rules of a kube-proxy that would run there'] : [];
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

interface Wanted {
  readonly family: Family;
  readonly isWanted: (port: ServicePort) => boolean;
  readonly isWhole: boolean;
}

function familyRules(setup: NodeSetup, wanted: Wanted): FamilyRules {
  const {family} = wanted;
  const {config, view, facts} = setup;
  const none = {family, iptables: [], nftables: null, ipvs: null};
  switch (config.mode.value) {
    case 'nftables': {
      const table = setup.nft()?.tables.get(proxyTableId(family)) ?? null;
      return {
        ...none,
        nftables: nftTableText(
          expectTable({view, config, facts, family, table, serviceRanges: droppedRanges({api: setup.api, config, family, table})}),
          wanted,
        ),
      };
    }
    case 'ipvs': {
      const expected = expectIpvs({view, config, facts: setup.hostFacts(), family, bound: setup.bound()});
      return {...none, iptables: ipvsTables(expected, wanted), ipvs: ipvsText(expected, wanted)};
    }
    default: {
      const ruleset = setup.dumps.current.get(family) ?? null;
      return {...none, iptables: iptablesTables(expectRuleset({view, config, facts, family, ruleset}), wanted)};
    }
  }
}

/** The state of IPVS mode beside iptables, for the chosen Service ports. */
function ipvsText(expected: ExpectedIpvs, {isWanted}: Wanted): IpvsText {
  const {family} = expected.context;
  const servers = [...expected.servers.values()].flatMap(claims => claims.filter(({owner}) => isWanted(owner.port)).slice(-1));
  return {
    virtualServers: servers.flatMap(({server}) => [server.text, ...server.realServers.map(({text}) => text)]),
    ipsets: [...expected.members].map(([role, members]) => ({
      name: setName(role, family),
      type: setTypes[role],
      members: [...members].filter(([, owners]) => owners.some(({port}) => isWanted(port))).map(([member]) => member),
    })),
    addresses: [...expected.bound].filter(([, owners]) => owners.some(({port}) => isWanted(port))).map(([address]) => address),
  };
}

/** The iptables rules of IPVS mode. Up to 1.23 kube-proxy creates KUBE-MARK-DROP if it is missing; the kubelet writes its rules. */
function ipvsTables(expected: ExpectedIpvs, {isWanted, isWhole}: Wanted): readonly RuleTable[] {
  const tables = new RuleTables();
  if (isWhole && firewallsInNat(expected.context.version)) tables.add('nat', 'KUBE-MARK-DROP');
  for (const [place, texts] of isWhole ? expected.baseRules : []) tables.addBaseRules(place, texts);
  for (const owner of expected.ports)
    if (isWanted(owner.port)) tables.addBaseRules('filter/KUBE-IPVS-OUT-FILTER', expected.outFilter(owner));
  return tables.sorted();
}

/** The tables of iptables mode, with the rules of the chosen Service ports. */
function iptablesTables(expected: ExpectedRuleset, {isWanted, isWhole}: Wanted): readonly RuleTable[] {
  const tables = new RuleTables();
  for (const table of isWhole ? canaryTables : []) tables.add(table, canaryChain);
  for (const [table, chain] of isWhole ? baseRuleChains(expected.context) : []) tables.add(table, chain);
  const ports = expected.ports.filter(({port}) => isWanted(port)).map(item => expected.rulesOf(item));
  for (const {shared} of ports) for (const {table, chain, text} of shared) tables.add(table, chain, `-A ${chain} ${text}`);
  for (const [place, texts] of isWhole ? expected.baseRules() : []) tables.addBaseRules(place, texts);
  for (const {own} of ports) for (const [chain, text] of own) tables.add('nat', chain, ...text.split('\n'));
  return tables.sorted();
}

/** Rules by table and chain as they are written. */
class RuleTables {
  readonly #tables = new Map<string, Map<string, string[]>>();

  /** Without rules, a chain that exists whether it contains any or not. */
  add(table: string, chain: string, ...rules: readonly string[]): void {
    const chains = heldIn(this.#tables, table, () => new Map<string, string[]>());
    heldIn(chains, chain, () => []).push(...rules);
  }

  /** Rules without their `-A CHAIN`, by `table/chain`. */
  addBaseRules(place: string, texts: readonly string[]): void {
    const [table = '', chain = ''] = place.split('/');
    this.add(table, chain, ...texts.map(text => `-A ${chain} ${text}`));
  }

  /** In the order of iptables-save: built-in chains first, all others by name. */
  sorted(): readonly RuleTable[] {
    const order = ['mangle', 'filter', 'nat'];
    const tables = [...this.#tables].toSorted(([a], [b]) => order.indexOf(a) - order.indexOf(b));
    return tables.map(([name, chains]) => ({
      name,
      chains: [...chains]
        .map(([chain, rules]) => ({name: chain, rules}))
        .toSorted((a, b) => rank(a.name) - rank(b.name) || (a.name < b.name ? -1 : 1)),
    }));
  }
}

const builtIn = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'];

function rank(chain: string): number {
  const at = builtIn.indexOf(chain);
  return at < 0 ? builtIn.length : at;
}

/** The table `kube-proxy` of one family, with the objects of the chosen Service ports. */
function nftTableText(expected: ExpectedTable, {isWanted, isWhole}: Wanted): NftTableText {
  const objects = expected.ports.filter(({port}) => isWanted(port)).map(item => expected.objectsOf(item));
  const withComments = commentsObjects(expected.context.version);
  const elements = Map.groupBy(
    objects.flatMap(one => one.elements),
    ({set}) => set,
  );
  const elementsOf = (name: string): readonly string[] => {
    if (name === 'nodeport-ips') return [...(expected.set(name)?.elements.keys() ?? [])];
    const own = (elements.get(name) ?? []).map(({key, value, comment}) => [key, {value, comment}] as const);
    return [...new Map(own)].map(
      ([key, {value, comment}]) => `${key}${comment === null ? '' : ` comment "${comment}"`}${value === null ? '' : ` : ${value}`}`,
    );
  };
  const set = (shape: SetShape): NftSetText => ({
    kind: shape.valueTypes === null ? 'set' : 'map',
    name: shape.name,
    properties: [
      ...propertiesOf(shape),
      ...(withComments && setComments[shape.name] !== undefined ? [`comment "${setComments[shape.name]}"`] : []),
    ],
    elements: elementsOf(shape.name),
  });
  return {
    table: expected.id,
    comment: withComments ? 'rules for kube-proxy' : null,
    counters: isWhole ? rejectedOnLocalhost(expected.context).map(localhostCounter) : [],
    sets: [...expected.baseSets.filter(({name}) => isWhole || elements.has(name)), ...objects.flatMap(({sets}) => sets)].map(set),
    chains: [
      ...(isWhole ? expected.baseRules : []).map(({name, base, rules}) => baseChain({name, base, rules}, withComments)),
      ...objects.flatMap(({chains}) => [...chains].map(([name, rules]) => ({name, rules, properties: []}))),
    ],
  };
}

function baseChain(
  {name, base, rules}: {readonly name: string; readonly base: NftHook | null; readonly rules: readonly string[]},
  withComments: boolean,
): NftChainText {
  if (base !== null) {
    const hook = `type ${base.type} hook ${base.hook} priority ${priorityText(base.priority, base.hook)}; policy ${base.policy};`;
    return {name, rules, properties: [hook]};
  }
  const isHelper = name === 'reject-chain' && withComments;
  return {name, rules, properties: isHelper ? ['comment "helper for @no-endpoint-services / @no-endpoint-nodeports"'] : []};
}

/** The kernel sets the size of a set that rules add to. */
function propertiesOf({keyTypes, valueTypes, flags, timeout}: SetShape): readonly string[] {
  const type = `type ${keyTypes.join(' . ')}${valueTypes === null ? '' : ` : ${valueTypes.join(' . ')}`}`;
  if (timeout !== null) return [type, 'size 65535', 'flags dynamic,timeout', `timeout ${durationText(timeout)}`];
  return flags.length === 0 ? [type] : [type, `flags ${flags.join(',')}`];
}

/** `10m`, `3h`, `1d2h`. */
function durationText(seconds: number): string {
  const parts: string[] = [];
  let rest = seconds;
  for (const [unit, length] of [
    ['d', 86_400],
    ['h', 3600],
    ['m', 60],
    ['s', 1],
  ] as const) {
    const count = Math.floor(rest / length);
    if (count > 0) parts.push(`${count}${unit}`);
    rest -= count * length;
  }
  return parts.join('');
}
