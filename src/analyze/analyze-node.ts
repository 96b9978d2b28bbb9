import {nodeObject, podsOnNode} from '../expect/api-index.ts';
import {parseChainName} from '../expect/iptables/chain-names.ts';
import {k3sRunsKubeProxy, kubeProxyPod} from '../expect/kube-proxy-pod.ts';
import {type Family, families} from '../model/address.ts';
import {whyWithoutKubeProxy} from '../model/node/node-facts.ts';
import type {Chain, Rule, Ruleset} from '../model/ruleset.ts';
import {fileText, isRulesAlone, type NodeDump, iptablesFiles, type ApiObjects} from '../model/snapshot.ts';
import {someOf, namespacedName} from '../model/text.ts';
import {parseNodeAddresses} from '../parse/ipvs/kube-ipvs0.ts';
import {besideUnreadCilium, withCilium} from './cilium/analyze-cilium.ts';
import {ciliumPod, hasCiliumTables, leavesKubeProxy, oldestCilium} from '../expect/cilium/cilium-node.ts';
import {describeRules, isUnhooked} from './iptables/excerpt.ts';
import {misnamedChains} from './iptables/misnamed-chains.ts';
import {countRules} from './iptables/node-rulesets.ts';
import type {AnalyzedStatus, Dumps, NodeAnalysis, NodeInput, ProxyMode, UnreadFamily} from './proxy-mode.ts';
import {probabilityOf} from './services-in-rules/iptables-services.ts';
import {servicesInRules} from './services-in-rules/services-in-rules.ts';
import {closedEntries} from './services-in-rules/what-rules-say.ts';
import {whatIsLacking, whatTextSays} from './services-in-rules/what-text-says.ts';
import {withEffect} from './symptoms/node-symptoms.ts';
import type {Symptom} from './symptoms/symptom.ts';
import {iptablesMode} from './iptables/iptables-mode.ts';
import {ipvsMode} from './ipvs/ipvs-mode.ts';
import {nftablesMode} from './nftables/nftables-mode.ts';
import {userspaceMode} from './userspace/userspace-mode.ts';
import {narrowNftJson, type NarrowTo} from './nftables/nft-rules.ts';

/** Evaluates all families of one node: what its kube-proxy wrote, the tables of its Cilium, or both. */
export function analyzeNode(input: NodeInput): NodeAnalysis {
  if (!hasCiliumTables(input.node)) return besideUnreadCilium(analyzeKubeProxy(input), input);
  const hasRules = holdsRules({node: input.node, rulesets: input.dumps.current});
  const runsToo =
    saysItself({node: input.node, config: input.config}) ||
    kubeProxyPod(input.api, input.node.name) !== undefined ||
    k3sRunsKubeProxy(nodeObject(input.api, input.node.name), input.api) === true;
  const kubeProxy = hasRules && (runsToo || leavesKubeProxy(input.node)) ? analyzeKubeProxy(input) : null;
  return withCilium(input, {kubeProxy, runsToo, hasRules});
}

/** Evaluates a node in the mode that its kube-proxy runs in. */
function analyzeKubeProxy(input: NodeInput): NodeAnalysis {
  const {dumps, config} = input;
  const held = {rulesets: dumps.current, backends: dumps.both, nft: input.nft};
  const base = {...held, families: [], unread: [], symptoms: [], traces: [], config, counts: countRules(dumps)};
  const other = servedByOther(input, dumps.current);
  if (other !== null)
    return {...base, status: {kind: 'not-served', reason: other, ...(other === byItsRules || other === byItsPod ? {remedy: byExec} : {})}};
  const mode = proxyModes.find(({name}) => name === config.mode.value);
  if (mode === undefined)
    return {...base, status: {kind: 'unread', reason: `kube-proxy runs in ${config.mode.value} mode, which is not supported yet`}};
  const unseen = unseenObjects(input, dumps);
  const prepared = mode.prepare(input);
  const ready = unseen === null || ('whyUnread' in prepared && !unseen.tellsMore) ? prepared : {whyUnread: unseen.reason};
  if ('whyUnread' in ready) {
    const {whyUnread: reason} = ready;
    if (!isRulesAlone(input)) return {...base, status: {kind: 'unread', reason, remedy: unseen === null ? undefined : toReadObjects}};
    return {...base, symptoms: rulesAloneSymptoms(dumps), status: {kind: 'unread', reason, remedy: whatToGive(input)}};
  }
  const analysis = ready.analyze();
  return {...held, ...analysis, status: statusOf(analysis.unread)};
}

function statusOf(unread: readonly UnreadFamily[]): AnalyzedStatus {
  if (unread.length === 0) return {kind: 'checked'};
  return {kind: 'unread', reason: unread.map(({family, reason}) => `${family}: ${reason}`).join('; ')};
}

/** Objects that were not read may exist: no rule may be reported as stale or missing because of them. Null if all were read. */
function unseenObjects({api, node, nft}: NodeInput, {current}: Dumps): {readonly reason: string; readonly tellsMore: boolean} | null {
  const {services, endpointSlices, endpoints} = api;
  const unseen = services === null ? 'the Services' : endpointSlices === null && endpoints === null ? 'the EndpointSlices' : null;
  if (unseen === null) return null;
  const unknown = `${unseen} were not read, and without them the expected rules are unknown`;
  if (!isRulesAlone({api})) return {reason: unknown, tellsMore: false};
  const held = [...current.values()].map(describeRules).join(', ');
  const rules = {rulesets: current, nft: nft()};
  const traces = servicesInRules(node, rules);
  const facts = whatTextSays(node, rules, traces);
  const said = [...facts.map(({text}) => text), ...closedEntries(traces, new Set(facts.flatMap(({about}) => about)))];
  const shown =
    said.length > 0
      ? `${unseen} were not read. What was read shows: ${someOf(said, {max: 3})}`
      : `${unknown}: ${whatIsLacking(node, traces)}`;
  return {reason: `${shown}${held === '' ? '' : ` (${held})`}`, tellsMore: said.length > 0};
}

const toReadObjects =
  'Add the list of these objects to the folder api of the bundle, or, in a cluster, get the right that "kubectl svc-trace access" finds missing.';

/** What rules without API objects can answer, and what to add for other questions. */
function whatToGive({node}: NodeInput): string {
  const dump = ['iptables-save', 'ip6tables-save', 'nft.json', 'ipvsadm-save'].find(file => node.files.includes(file)) ?? 'iptables-save';
  return `See what these rules do: svc-trace trace --from FILE lists the Services that they serve, svc-trace trace NAME --from FILE draws one, and svc-trace packet --from FILE --source IP --destination IP --port PORT --local-address IP follows one packet. To compare the rules with the cluster put the API objects beside them: a directory with api/services.json, api/endpointslices.json (or api/endpoints.json) and nodes/NAME/${dump}.`;
}

/** Why no rules of kube-proxy are expected on a node; null if kube-proxy serves it. */
function servedByOther({node, api, config}: NodeInput, rulesets: ReadonlyMap<Family, Ruleset>): string | null {
  const object = nodeObject(api, node.name);
  const never = object === undefined ? null : whyWithoutKubeProxy(object);
  // What was read is checked, whatever the labels of the node say.
  if (never !== null) return holdsRules({node, rulesets}) ? null : never;
  const inK3s = k3sRunsKubeProxy(object, api);
  if (saysItself({node, config}) || inK3s === true || kubeProxyPod(api, node.name) !== undefined) return null;
  const nat = rulesets.get('IPv4')?.tables.get('nat');
  const chains = [...(nat?.chains.keys() ?? [])];
  if (chains.some(name => name.startsWith('KUBE-SVC-') || name === 'KUBE-SERVICES')) return null;
  if (chains.some(name => name.startsWith('CILIUM_'))) return byItsRules;
  if (ciliumPod(api, node.name) !== undefined) return byItsPod;
  if (chains.some(name => name.startsWith('OVN-KUBE-')))
    return 'the node has rules of OVN-Kubernetes and none of kube-proxy: OVN-Kubernetes serves its Services';
  const interfaces = parseNodeAddresses(fileText(node, 'addresses.json')) ?? [];
  const names = podsOnNode(api, node.name).map(({metadata}) => metadata.name);
  // Where the pods of the system were read, an interface without a pod of its program was left behind.
  const isKnown =
    api.podsOf === undefined &&
    api.namespaces === undefined &&
    api.pods?.some(({metadata}) => metadata.namespace === 'kube-system') === true;
  const other = devicesOfOthers.find(
    ({device, pod}) => interfaces.some(({name}) => name === device) && (!isKnown || names.some(name => pod.test(name))),
  );
  if (other !== undefined)
    return `the node has the interface ${other.device} of ${other.program}, and no rules of kube-proxy: ${other.program} serves its Services`;
  return inK3s === false
    ? 'the node has no rules of kube-proxy, which is disabled (--disable-kube-proxy): another program serves its Services'
    : null;
}

const byItsRules = 'the node has rules of Cilium and none of kube-proxy: Cilium serves its Services';
const byItsPod = 'the node has an agent of Cilium and no rules of kube-proxy: Cilium serves its Services';
const byExec = `From ${oldestCilium} on, Cilium is checked by exec into its agents: use check without --agents, and with the rights that "kubectl svc-trace access" names.`;

/** Interfaces that other programs create if they serve Services. */
const devicesOfOthers = [
  {device: 'bpfin.cali', program: 'Calico in eBPF mode', pod: /^calico-node/},
  {device: 'kube-dummy-if', program: 'kube-router', pod: /^kube-router/},
  {device: 'ovn-k8s-mp0', program: 'OVN-Kubernetes', pod: /^ovnkube/},
  {device: 'cilium_host', program: 'Cilium', pod: /^cilium-(?!operator|envoy)/},
] as const;

function holdsRules({node, rulesets}: Pick<NodeInput, 'node'> & {readonly rulesets: ReadonlyMap<Family, Ruleset>}): boolean {
  return [...rulesets.values()].some(({tables}) => tables.size > 0) || node.files.some(file => /^(?:nft.*\.json|ipvsadm-save)$/.test(file));
}

/** A kube-proxy that runs on the node answered. */
function saysItself({node, config}: Pick<NodeInput, 'node' | 'config'>): boolean {
  return config.mode.source === 'proxy-mode' || node.files.includes('kube-proxy-version');
}

/** Faults that rules show without any API object: names that do not match, broken jumps, uneven shares, chains that no rule jumps to. */
function rulesAloneSymptoms({current, both}: Dumps): readonly Symptom[] {
  return [...current].flatMap(([family, ruleset]) => {
    const chains = [...(ruleset.tables.get('nat')?.chains.values() ?? [])];
    const isWhole = ruleset.tables.get('nat')?.complete === true;
    return [
      ...misnamedChains(chains, family).map(({symptom}) => symptom),
      ...chains.flatMap(chain => unevenShares(chain, family)),
      ...(both.some(other => other.family === family) ? [] : unhookedServices(ruleset, family)),
      ...(isWhole ? [...brokenJumps(ruleset, chains, family), ...unreachedChains(chains, family)] : []),
    ];
  });
}

function unhookedServices(ruleset: Ruleset, family: Family): readonly Symptom[] {
  const senders = {PREROUTING: 'pods and from outside', OUTPUT: 'the node itself'};
  return (['PREROUTING', 'OUTPUT'] as const)
    .filter(base => isUnhooked(ruleset, base))
    .map(base => ({
      kind: 'services-chain-not-hooked' as const,
      family,
      port: null,
      expected: [],
      actual: [],
      ...withEffect(`${base} of table nat does not lead to KUBE-SERVICES`, `packets of ${senders[base]} to Services are not translated`),
    }));
}

/** In a complete table, a missing chain that a rule jumps to was lost. */
function brokenJumps(ruleset: Ruleset, chains: readonly Chain[], family: Family): readonly Symptom[] {
  return chains.flatMap(chain =>
    chain.rules().flatMap((rule): readonly Symptom[] => {
      const name = rule.target?.name ?? '';
      if (!name.startsWith('KUBE-') || ruleset.chain('nat', name) !== undefined) return [];
      const detail = `${chain.name} jumps to ${name}, which does not exist: packets that take this jump reach no endpoint by it`;
      return [{kind: 'broken-jump', family, port: null, detail, expected: [], actual: [rule]}];
    }),
  );
}

/** kube-proxy gives every endpoint the same share: the first of n rules takes 1/n, and the last takes the rest. */
function unevenShares(chain: Chain, family: Family): readonly Symptom[] {
  const role = parseChainName(chain.name)?.role;
  if (role !== 'SVC' && role !== 'SVL' && role !== 'XLB') return [];
  const picks = chain.rules().filter(rule => parseChainName(rule.target?.name ?? '')?.role === 'SEP' && !rule.text.includes(' --rcheck '));
  if (picks.length === 0 || (!chain.complete && !endsWithAll(picks))) return [];
  const wrong = picks.findIndex((rule, index) => Math.abs(probabilityOf(rule) - 1 / (picks.length - index)) > 0.001);
  const rule = picks[wrong];
  if (rule === undefined) return [];
  const percent = Math.round(probabilityOf(rule) * 1000) / 10;
  const detail = `the shares of ${chain.name} do not add up: rule ${wrong + 1} of ${picks.length} takes ${percent}% of the packets that come to it, and kube-proxy writes 1/${picks.length - wrong}`;
  return [{kind: 'uneven-balance', family, port: null, detail, expected: [], actual: picks}];
}

function endsWithAll(picks: readonly Rule[]): boolean {
  const last = picks.at(-1);
  return last !== undefined && probabilityOf(last) === 1;
}

/** Chains of Services that no rule jumps to. */
function unreachedChains(chains: readonly Chain[], family: Family): readonly Symptom[] {
  const reached = new Set(chains.flatMap(chain => chain.rules().map(({target}) => target?.name ?? '')));
  return chains
    .filter(({name, ruleCount}) => parseChainName(name) !== null && ruleCount > 0 && !reached.has(name) && !name.startsWith('KUBE-XLB-'))
    .map(chain => ({
      kind: 'orphan-chain' as const,
      family,
      port: null,
      expected: [],
      actual: chain.rules().slice(0, 8),
      detail: `no rule jumps to ${chain.name}`,
    }));
}

/** All modes of kube-proxy that can be evaluated. */
const proxyModes: readonly ProxyMode[] = [iptablesMode, ipvsMode, nftablesMode, userspaceMode];

/**
 * A node with the rules of some Services alone, and all base rules: to try states of these Services on is little work then. Null in a mode
 * whose dumps cannot be narrowed, and where a dump is not whole.
 */
export function narrowNode(node: NodeDump, mode: string, {to, api}: {readonly to: NarrowTo; readonly api: ApiObjects}): NodeDump | null {
  const narrowed = new Map<string, Buffer | null>();
  if (mode === 'iptables') {
    for (const file of families.flatMap(iptablesFiles)) {
      const content = node.read(file);
      if (content !== null) narrowed.set(file, Buffer.from(narrowIptablesSave(content.toString('latin1'), to), 'latin1'));
    }
  } else if (mode === 'nftables') {
    if (node.read('nft.txt') !== null) return null;
    const addresses = addressesOfOthers(api, to);
    for (const file of nftFiles) {
      const content = node.read(file);
      if (content === null) continue;
      const text = narrowNftJson(content.toString('utf8'), to, addresses);
      if (text === null) return null;
      narrowed.set(file, Buffer.from(text));
    }
  } else return null;
  for (const file of ['conntrack', 'metrics']) narrowed.set(file, null);
  const read = (file: string): Buffer | null => (narrowed.has(file) ? (narrowed.get(file) ?? null) : node.read(file));
  return {...node, files: node.files.filter(file => narrowed.get(file) !== null), read};
}

const nftFiles = ['nft-ruleset.json', 'nft.json'];

/** Cluster IPs that no Service of these has. */
function addressesOfOthers({services}: ApiObjects, to: NarrowTo): ReadonlySet<string> {
  const [own, others] = [new Set<string>(), new Set<string>()];
  for (const {metadata, spec} of services ?? [])
    for (const address of spec?.clusterIPs ?? []) (to.services.has(namespacedName(metadata)) ? own : others).add(address);
  return new Set([...others].filter(address => !own.has(address)));
}

/**
 * An `iptables-save` without what kube-proxy wrote for other Services than these: their chains, and the rules of shared chains that lead
 * there. Endpoint chains that nothing leads to stay, for nobody can tell whose they are.
 */
function narrowIptablesSave(text: string, to: NarrowTo): string {
  const lines = text.split('\n');
  const [others, own] = [new Set<string>(), new Set<string>()];
  const isOthers = lines.map(line => isRule(line) && isLineOfOthers(line, to));
  for (const [index, line] of lines.entries()) {
    const target = isRule(line) ? targetOf(line) : null;
    if (target?.startsWith('KUBE-SEP-')) (isOthers[index] ? others : own).add(target);
  }
  const isGone = (chain: string): boolean => {
    const parsed = parseChainName(chain);
    if (parsed === null) return false;
    return parsed.role === 'SEP' ? others.has(chain) && !own.has(chain) : !to.hashes.has(parsed.hash);
  };
  const kept = lines.filter((line, index) => !isOthers[index] && !((line.startsWith(':') || isRule(line)) && isGone(chainOf(line))));
  return kept.join('\n');
}

/** Of other Services, whatever endpoint chains there are. */
function isLineOfOthers(line: string, {services, hashes}: NarrowTo): boolean {
  const chain = chainOf(line);
  if (!chain.startsWith('KUBE-')) return false;
  const parsed = parseChainName(chain);
  if (parsed !== null) return parsed.role !== 'SEP' && !hashes.has(parsed.hash);
  const target = parseChainName(targetOf(line) ?? '');
  if (target !== null) return !hashes.has(target.hash);
  const [, service] = /--comment "?([^\s"/]+\/[^\s":]+)/.exec(line) ?? [];
  return service !== undefined && !services.has(service);
}

function isRule(line: string): boolean {
  return line.startsWith('-A ') || (line.startsWith('[') && line.includes('] -A '));
}

function chainOf(line: string): string {
  if (line.startsWith(':')) return line.slice(1, line.indexOf(' '));
  const from = line.indexOf('-A ') + 3;
  const end = line.indexOf(' ', from);
  return end < 0 ? line.slice(from) : line.slice(from, end);
}

function targetOf(line: string): string | null {
  const at = line.lastIndexOf(' -j KUBE-');
  return at < 0 ? null : (line.slice(at + 4).split(' ', 1)[0] ?? null);
}
