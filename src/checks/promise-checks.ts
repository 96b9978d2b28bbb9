import {entryNames} from '../model/service-port.ts';
import {type BrokenPromise, brokenPromises, type SettingName} from '../analyze/promise/promise-breaches.ts';
import {promisedNode} from '../analyze/promise/shapes.ts';
import {describeDetector} from '../analyze/symptoms/node-symptoms.ts';
import {isNoNode} from '../expect/api-index.ts';
import {localDetector, podsByNode} from '../expect/node-context.ts';
import {familyOf, parseCidr} from '../model/address.ts';
import type {Observation, Severity} from '../model/finding.ts';
import {compareText, plural, someOf} from '../model/text.ts';
import {defaultOfKubeProxy, type Setting, seenInRules} from '../model/proxy-config.ts';
import type {NodeCheckContext} from './check-types.ts';
import {check} from './catalog.ts';
import {showArguments} from './commands/commands.ts';
import {selectsPodsOf} from '../analyze/third-party/network-policies.ts';
import {affectedServices} from './symptom-observations.ts';

export const settingBreaksPromise = check('ST701', {
  *node(context) {
    const invalid = invalidSettings(context);
    for (const [, message] of invalid) yield {severity: 'warning', message, ...showArguments(context)};
    for (const setting of ['nodePortAddresses', 'bindAddress', 'featureGates'] as const) {
      const broken = invalid.has(setting) ? [] : ofSetting(context, setting);
      if (broken.length > 0)
        yield {...observed(context, broken, settingText(context, setting)), severity: settingSeverity(context, setting, broken)};
    }
  },
});

/** What kube-proxy refuses, or cannot use: it runs with other settings than these, or will not start again. */
function invalidSettings(context: NodeCheckContext): ReadonlyMap<SettingName, string> {
  const {config, families: checked} = context;
  const found = new Map<SettingName, string>();
  if (checked.length === 0) return found;
  const {clusterCIDRs, nodePortAddresses, version} = config;
  const words = version.value.minor >= 37 ? ['primary', 'localhost', 'all'] : version.value.minor >= 31 ? ['primary'] : [];
  const refused = (name: string, texts: readonly string[], source: string): string =>
    `${name} ${texts.join(',')} (${source}) is no network that kube-proxy ${version.value.text} accepts: it does not start with this setting`;
  // What rules show was accepted, and may be written in another way there.
  const valuesOf = ({value, source}: Setting<readonly string[]>): readonly string[] => (source === seenInRules ? [] : value);
  const networks = valuesOf(clusterCIDRs).filter(isNoNetwork);
  const addresses = valuesOf(nodePortAddresses).filter(text => isNoNetwork(text) && !words.includes(text));
  const detector = networks.length > 0 ? refused('clusterCIDR', networks, clusterCIDRs.source) : unusableDetector(context);
  if (detector !== null) found.set('detector', detector);
  if (addresses.length > 0) found.set('nodePortAddresses', refused('nodePortAddresses', addresses, nodePortAddresses.source));
  return found;
}

/** An address without a mask is none. */
function isNoNetwork(text: string): boolean {
  return !text.includes('/') || parseCidr(text.trim()) === null;
}

/** Valid networks, or an interface, by which kube-proxy recognizes no pod of this node. */
function unusableDetector({config, facts, api, families: checked}: NodeCheckContext): string | null {
  const {clusterCIDRs, detectLocalMode, bridgeInterface, interfaceNamePrefix} = config;
  const {links = null} = facts.network ?? {};
  if (detectLocalMode.value === 'BridgeInterface' || detectLocalMode.value === 'InterfaceNamePrefix') {
    const isBridge = detectLocalMode.value === 'BridgeInterface';
    const {value, source} = isBridge ? bridgeInterface : interfaceNamePrefix;
    const isThere = links === null || value === '' || links.some(({name}) => (isBridge ? name === value : name.startsWith(value)));
    if (isThere || !checked.some(family => podsByNode(api, family).has(facts.name))) return null;
    return `${detectLocalMode.value} ${value} (${source}) is ${isBridge ? 'no interface' : 'the start of no interface'} of this node, and pods run on it: kube-proxy recognizes none of them`;
  }
  const {value, source} = clusterCIDRs;
  if (detectLocalMode.value !== 'ClusterCIDR' || value.length === 0 || source === seenInRules) return null;
  const families = value.map(text => parseCidr(text.trim())?.family);
  const primary = familyOf(facts.hostIPs[0] ?? '');
  if (new Set(families).size < families.length)
    return `clusterCIDR ${value.join(',')} (${source}) has two networks of one family: kube-proxy accepts one of each, and does not start with this setting`;
  if (primary === null || families.includes(primary)) return null;
  return `clusterCIDR ${value.join(',')} (${source}) holds no ${primary} network, and ${facts.name} is an ${primary} node: kube-proxy recognizes none of its pods`;
}

function settingText({config}: NodeCheckContext, setting: 'nodePortAddresses' | 'bindAddress' | 'featureGates'): string {
  const {value, source} = config[setting];
  const text = typeof value === 'string' ? value : Array.isArray(value) ? value.join(',') : JSON.stringify(value);
  return `${setting} ${text} (${source}) breaks what the API promises`;
}

/** A gate is switched off on purpose. Clients find the address that is left, if one is. */
function settingSeverity(context: NodeCheckContext, setting: SettingName, broken: readonly BrokenPromise[]): Severity {
  if (setting === 'featureGates') return 'info';
  if (setting !== 'nodePortAddresses') return severityOf(broken);
  const own = promisedNode(context)?.hostIPs ?? [];
  const isLeft = (family: BrokenPromise['family']): boolean =>
    own.some(text => familyOf(text) === family && !broken.some(({address}) => address === text));
  return broken.every(({family}) => isLeft(family)) ? 'warning' : 'error';
}

export const podsNotRecognized = check('ST702', {
  *node(context) {
    const broken = ofDetector(context);
    if (broken.length === 0) return;
    const {config, facts} = context;
    const [{family}] = broken as readonly [BrokenPromise];
    const detector = describeDetector(localDetector(family, config, facts));
    yield {
      ...observed(context, broken, `by its settings (${config.clusterCIDRs.source}), kube-proxy takes ${detector} for pods of this node`),
      severity: severityOf(broken),
    };
  },
});

/** What is lost because of the detector. That pods are masqueraded ST504 says, and also whether the rules have another one. */
export function ofDetector(context: NodeCheckContext): readonly BrokenPromise[] {
  const told = context.symptoms.filter(({kind}) => kind === 'cluster-cidr-mismatch');
  const broken = ofSetting(context, 'detector');
  // Without any rule, nothing shows what no file says.
  const isGuess =
    context.config.clusterCIDRs.source === defaultOfKubeProxy && context.symptoms.some(({kind}) => kind === 'no-service-rules');
  if (isGuess || told.some(({cause}) => cause !== 'setting')) return [];
  return told.length > 0 && severityOf(broken) !== 'error' ? [] : broken;
}

export const knownBug = check('ST703', {
  *node(context) {
    for (const [mended, broken] of byMended(context, 'bug')) {
      const text = `kube-proxy ${context.config.version.value.text} has a bug in ${context.config.mode.value} mode that ${mended} does not have`;
      const remedy = `Upgrade kube-proxy to ${mended} or a later version.`;
      yield {...observed(context, broken, text), severity: severityOf(broken), remedy};
    }
  },
});

export const limitOfMode = check('ST704', {
  *node(context) {
    const broken = brokenPromises(context).filter(({cause}) => cause.kind === 'mode');
    if (broken.length === 0) return;
    // Packets that an operator keeps on the node leave it.
    const leaves = broken.some(({entry, breach}) => entry === 'clusterIP' && breach === 'unwanted');
    const text = `${context.config.mode.value} mode cannot do all that the API promises`;
    yield {...observed(context, broken, text), severity: leaves ? 'warning' : 'info'};
  },
});

export const apiNewer = check('ST705', {
  *node(context) {
    for (const [mended, broken] of byMended(context, 'older-api')) {
      const text = `kube-proxy ${context.config.version.value.text} does not know what these Services use, and ${mended} does`;
      yield {...observed(context, broken, text), remedy: `Upgrade kube-proxy to ${mended} or a later version.`};
    }
  },
});

export const podAddressLost = check('ST706', {
  *node(context) {
    const broken = ofSetting(context, 'masqueradeAll');
    if (broken.length === 0) return;
    const isPolicied = portsOf(broken).some(port => selectsPodsOf(context.api, port.object));
    const text = `masqueradeAll is set (${context.config.masqueradeAll.source})${isPolicied ? ', and NetworkPolicies that select endpoints see the address of the node in place of the pod' : ''}`;
    yield {...observed(context, broken, text), severity: isPolicied ? 'warning' : 'info'};
  },
});

/** The name that kube-proxy runs as is no name of this node: what ST507 says of rules that show it, by the setting that was read. */
export function* otherNodeName(context: NodeCheckContext): Iterable<Observation> {
  const {config, facts, api, families, symptoms} = context;
  const {value, source} = config.nodeName;
  if (value === facts.name || families.length === 0 || symptoms.some(({kind}) => kind === 'node-name-mismatch')) return;
  const broken = ofSetting(context, 'nodeName');
  const isUnknown = isNoNode(api, value);
  if (broken.length === 0 && !isUnknown) return;
  const text = `kube-proxy runs as node ${value} (${source})${isUnknown ? ', which the cluster does not have' : ''}, and not as ${facts.name}: it treats none of the endpoints on ${facts.name} as local`;
  yield broken.length > 0
    ? {...observed(context, broken, text), severity: 'error'}
    : {severity: 'warning', message: `${text}. No Service needs it today`};
}

function ofSetting(context: NodeCheckContext, setting: SettingName): readonly BrokenPromise[] {
  return brokenPromises(context).filter(({cause}) => cause.kind === 'setting' && cause.setting === setting);
}

function byMended(context: NodeCheckContext, kind: 'bug' | 'older-api'): ReadonlyMap<string, readonly BrokenPromise[]> {
  return Map.groupBy(
    brokenPromises(context).filter(({cause}) => cause.kind === kind),
    ({cause}) => ('mended' in cause ? cause.mended.text.replace(/\.0$/, '') : ''),
  );
}

/** Lost packets, and such as get in where they should not, are errors; where custom alone keeps the node out, nothing is lost. */
function severityOf(broken: readonly BrokenPromise[]): Severity {
  if (broken.some(({breach, entry}) => losses.has(breach) || (breach === 'unwanted' && entry !== 'clusterIP'))) return 'error';
  return broken.every(({breach}) => breach === 'admitted') ? 'info' : 'warning';
}

const losses: ReadonlySet<BrokenPromise['breach']> = new Set(['refused', 'dropped', 'passed', 'unanswered']);

function portsOf(broken: readonly BrokenPromise[]): BrokenPromise['ports'] {
  const ports = new Set(broken.flatMap(broke => broke.ports));
  return [...ports].sort((a, b) => compareText(a.servicePortName, b.servicePortName));
}

/** One cause is one finding of the node, with what it does to packets. */
function observed(context: NodeCheckContext, broken: readonly BrokenPromise[], cause: string): Observation {
  const ports = portsOf(broken);
  const names = someOf([...new Set(ports.map(({servicePortName}) => servicePortName))], {max: 3});
  const families = [...new Set(broken.map(({family}) => family))];
  const [family] = families;
  return {
    ...(families.length === 1 && family !== undefined ? {family} : {}),
    affects: affectedServices(ports),
    message: `${cause}: ${effectsOf(broken, 3)} (${plural(ports.length, 'Service port')}: ${names})`,
    gist: effectsOf(broken, 1),
    ...showArguments(context),
  };
}

function effectsOf(broken: readonly BrokenPromise[], max: number): string {
  const effects = Map.groupBy(broken, ({breach, entry}) => `${entryNames[entry]}s ${breachWords[breach]}`);
  const texts = [...effects].map(
    ([what, own]) => `packets from ${[...new Set(own.map(({sender}) => senderWords[sender]))].join(', ')} to ${what}`,
  );
  return someOf(texts, {max, noun: 'effect'});
}

const senderWords: Readonly<Record<BrokenPromise['sender'], string>> = {
  pod: 'pods of the node',
  node: 'the node itself',
  endpoint: 'an endpoint of the Service itself',
  outside: 'external clients',
};

const breachWords: Readonly<Record<BrokenPromise['breach'], string>> = {
  refused: 'are refused',
  dropped: 'are dropped',
  passed: 'reach no endpoint',
  unanswered: 'get no answer',
  unwanted: 'reach endpoints that they should not reach',
  unserved: 'reach only a part of the endpoints',
  'source-changed': "arrive with the node's address",
  admitted: 'are admitted although loadBalancerSourceRanges do not hold the client',
};
