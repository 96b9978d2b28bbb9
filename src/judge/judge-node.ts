import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import {expectRuleset} from '../expect/iptables/expect-ruleset.ts';
import {families, type Family} from '../model/family.ts';
import type {NodeFacts} from '../model/node-facts.ts';
import {oldestKnownMinor, type ProxyConfig} from '../model/proxy-config.ts';
import type {Ruleset} from '../model/ruleset.ts';
import type {ServicePort} from '../model/service-port.ts';
import type {PortTrace} from '../model/service-trace.ts';
import type {ApiObjects, NodeDump} from '../model/snapshot.ts';
import {parseIpsetSave} from '../parse/ipset-save.ts';
import {parseDumps} from '../parse/iptables-save.ts';
import type {Expect} from './adapt-expectation.ts';
import {garbledRules} from './garbled-rules.ts';
import {judgeFamily} from './judge-family.ts';
import {settleVersion} from './settle-version.ts';
import type {Symptom} from './symptom.ts';
import {tracePort} from './trace-port.ts';

export interface NodeInput {
  readonly node: NodeDump;
  readonly api: ApiObjects;
  readonly view: ClusterView;
  readonly config: ProxyConfig;
  readonly facts: NodeFacts;
  readonly dumps: Dumps;
  /** For which Service ports to trace the way of packets. */
  readonly traces: (port: ServicePort) => boolean;
}

export interface NodeJudgement {
  readonly status: JudgedStatus;
  /** The rulesets that were judged. */
  readonly rulesets: ReadonlyMap<Family, Ruleset>;
  /** The families that were judged. */
  readonly families: readonly Family[];
  /** Families that could not be judged and hold Services. */
  readonly unread: readonly {readonly family: Family; readonly reason: string}[];
  readonly backends: readonly {readonly family: Family; readonly nft: Ruleset; readonly legacy: Ruleset}[];
  readonly symptoms: readonly Symptom[];
  readonly traces: readonly PortTrace[];
  /** The settings that the rules were judged by. */
  readonly config: ProxyConfig;
}

export type JudgedStatus = {readonly kind: 'checked'} | {readonly kind: 'unread' | 'unsupported' | 'not-served'; readonly reason: string};

/** Judges all families of one node. */
export function judgeNode(given: NodeInput): NodeJudgement {
  const {dumps} = given;
  const base = {rulesets: dumps.current, backends: dumps.both, families: [], unread: [], symptoms: [], traces: [], config: given.config};
  const other = servedByOther(given, dumps.current);
  if (other !== null) return {...base, status: {kind: 'not-served', reason: other}};
  const mode = given.config.mode.value;
  if (mode !== 'iptables')
    return {...base, status: {kind: 'unread', reason: `kube-proxy runs in ${mode} mode, which is not supported yet`}};
  const {version} = given.config;
  if (version.value.minor < oldestKnownMinor)
    return {
      ...base,
      status: {
        kind: 'unread',
        reason: `kube-proxy ${version.value.text} is older than 1.${oldestKnownMinor}, the oldest whose rules are known`,
      },
    };
  if (dumps.current.size === 0) return {...base, status: {kind: 'unread', reason: whyEmpty(given.node)}};
  const unseen = unseenObjects(given.api);
  if (unseen !== null)
    return {...base, status: {kind: 'unread', reason: `${unseen} were not read, and without them nothing can be expected of its rules`}};
  const config = settleVersion(given, dumps.current);
  return judgeFamilies({...given, config}, dumps);
}

/** What is not seen is not the same as what is not there: no rule may be called left over or missing for it. */
function unseenObjects({services, endpointSlices, endpoints}: ApiObjects): string | null {
  if (services === null) return 'the Services';
  return endpointSlices === null && endpoints === null ? 'the EndpointSlices' : null;
}

function judgeFamilies(input: NodeInput, dumps: Dumps): NodeJudgement {
  const judged: Family[] = [];
  const unread: {family: Family; reason: string}[] = [];
  const symptoms: Symptom[] = [];
  const traces: PortTrace[] = [];
  const knowsZone =
    input.config.zone.source === 'flag' || (input.api.nodes?.some(({metadata}) => metadata.name === input.node.name) ?? false);
  const sets = parseIpsetSave(input.node.read('ipset-save')?.toString('utf8') ?? '');
  for (const family of families) {
    const ruleset = dumps.current.get(family) ?? null;
    const expect: Expect = assumption => expectRuleset({...input, family, ruleset}, assumption);
    const reason = whyUnreadable(family, ruleset);
    if (reason !== null || ruleset === null) {
      if (ruleset !== null || expect({}).ports.length > 0) unread.push({family, reason: reason ?? 'there is no dump of it'});
      continue;
    }
    const {symptoms: found, expected} = judgeFamily({expect, actual: ruleset, sets, knowsZone});
    traces.push(...expected.ports.filter(({port}) => input.traces(port)).map(item => tracePort({item, expected, actual: ruleset})));
    if (found.length > 0 && garbledRules(ruleset).length > 0)
      unread.push({family, reason: 'the dump was made by an iptables older than the one that wrote the rules'});
    else symptoms.push(...found);
    if (ruleset.cut === null) judged.push(family);
    else unread.push({family, reason: `the dump ends too early, at line ${ruleset.cut.line} in table ${ruleset.cut.table}`});
  }
  const [first] = unread;
  const needed =
    first === undefined
      ? {kind: 'checked' as const}
      : {kind: 'unread' as const, reason: unread.map(({family, reason}) => `${family}: ${reason}`).join('; ')};
  return {status: needed, rulesets: dumps.current, families: judged, unread, backends: dumps.both, symptoms, traces, config: input.config};
}

/** Null when the ruleset holds the tables that Services live in. */
function whyUnreadable(family: Family, ruleset: Ruleset | null): string | null {
  if (ruleset === null) return `there is no ${family === 'IPv4' ? 'iptables-save' : 'ip6tables-save'} of it`;
  const missing = ['nat', 'filter'].filter(table => !ruleset.hasTable(table));
  if (missing.length === 0 || ruleset.cut !== null) return null;
  return `the dump holds no table ${missing.join(' and no table ')}: it is of other tables only, or everything was flushed`;
}

function whyEmpty(node: NodeDump): string {
  const files = node.files.filter(file => file.endsWith('-save') && !file.startsWith('ip'));
  if (node.files.includes('iptables-save')) return 'its iptables-save is empty: the command failed, or everything was flushed';
  return files.length > 0 ? `it has no iptables-save, only ${files.join(', ')}` : 'it has no iptables-save';
}

/** A node on which nothing of kube-proxy is to be expected; null when kube-proxy serves it. */
function servedByOther({node, api, config}: NodeInput, rulesets: ReadonlyMap<Family, Ruleset>): string | null {
  const object = api.nodes?.find(({metadata}) => metadata.name === node.name);
  const system = object?.metadata.labels?.['kubernetes.io/os'] ?? object?.status?.nodeInfo?.operatingSystem;
  if (system === 'windows') return 'a Windows node: its Services are not served by iptables';
  const nat = rulesets.get('IPv4')?.tables.get('nat');
  if (nat === undefined || config.mode.source === 'proxy-mode' || node.files.includes('kube-proxy-version')) return null;
  const chains = [...nat.chains.keys()];
  if (chains.some(name => name.startsWith('KUBE-SVC-') || name === 'KUBE-SERVICES')) return null;
  if (chains.some(name => name.startsWith('CILIUM_'))) return 'no rules of kube-proxy, and those of Cilium: Cilium serves its Services';
  return chains.some(name => name.startsWith('OVN-KUBE-'))
    ? 'no rules of kube-proxy, and those of OVN-Kubernetes, which serves its Services'
    : null;
}

export interface Dumps {
  readonly current: ReadonlyMap<Family, Ruleset>;
  readonly both: readonly {readonly family: Family; readonly nft: Ruleset; readonly legacy: Ruleset}[];
}

/** What the tools in use print goes before what either backend was asked for by name. */
export function readDumps(node: NodeDump): Dumps {
  const current = new Map<Family, Ruleset>();
  const named = new Map<string, Ruleset>();
  for (const family of families) {
    const tool = family === 'IPv4' ? 'iptables' : 'ip6tables';
    for (const file of [`${tool}-save`, `${tool}-nft-save`, `${tool}-legacy-save`]) {
      const content = node.read(file);
      if (content === null) continue;
      for (const ruleset of parseDumps(content, family)) {
        const backend = file.includes('-nft-') ? 'nft' : file.includes('-legacy-') ? 'legacy' : ruleset.backend;
        if (backend !== null) named.set(`${ruleset.family} ${backend}`, ruleset);
        const isFirst =
          !current.has(ruleset.family) || (file === `${tool}-save` && ruleset.backend === current.get(ruleset.family)?.backend);
        if (isFirst) current.set(ruleset.family, ruleset);
      }
    }
  }
  const both = families.flatMap(family => {
    const nft = named.get(`${family} nft`);
    const legacy = named.get(`${family} legacy`);
    return nft === undefined || legacy === undefined ? [] : [{family, nft, legacy}];
  });
  return {current, both};
}
