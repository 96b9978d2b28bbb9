import {type FeatureGates, isGateOn, type KubeProxyVersion} from '../model/proxy-config.ts';

/** A change of kube-proxy that was cherry-picked, so that patches of one minor differ. */
export interface PatchChange {
  /** What is new, as `docs/dev/patch-releases.md` says it. */
  readonly what: string;
  /** Pull requests of kubernetes/kubernetes. */
  readonly pulls: readonly number[];
  /** The first patch with the change in each minor that got it. All later minors have it, and all other minors have not. */
  readonly first: Readonly<Record<number, number>>;
  /** Patches before the first one that may have the change: no source of theirs was found. */
  readonly mayHave?: Readonly<Record<number, number>>;
}

export type RulesMode = 'iptables' | 'nftables' | 'ipvs';

interface RuleChange extends PatchChange {
  readonly modes: readonly RulesMode[];
}

/** The changes of rules that came in patch releases. `docs/dev/patch-releases.md` has the same table. */
export const ruleChanges = {
  preDNATChains: {
    modes: ['nftables'],
    what: 'two base chains `…-pre-dnat` at priority −110 see the original destination, and the other filter hooks run at 0',
    pulls: [132456, 133969],
    first: {33: 6, 34: 0},
  },
  interfaceNames: {
    modes: ['nftables'],
    what: 'interfaces of pods are matched by name (`iifname`), not by index (`iif`)',
    pulls: [134024, 134117],
    first: {33: 6, 34: 2, 35: 0},
  },
  localExternalIPs: {
    modes: ['ipvs'],
    what: 'KUBE-IPVS-FILTER accepts packets to external IPs of Services with the external policy Local',
    pulls: [121919, 121928, 122323],
    first: {28: 6, 29: 2, 30: 0},
    mayHave: {29: 1},
  },
  otherInterfaces: {
    modes: ['ipvs'],
    what: 'a load-balancer or external IP that another interface has is neither on kube-ipvs0 nor in KUBE-IPVS-IPS',
    pulls: [115019, 117684],
    first: {27: 2, 28: 0},
  },
  healthCheckPorts: {
    modes: ['ipvs'],
    what: 'KUBE-IPVS-FILTER accepts packets to health-check ports',
    pulls: [117723, 117755, 117759],
    first: {26: 5, 27: 2, 28: 0},
  },
  readyEndpointsCount: {
    modes: ['iptables'],
    what: 'endpoints that are not ready count as none; 1.22.0 to 1.22.3 write their chains, and no REJECT',
    pulls: [106030, 106373],
    first: {22: 4, 23: 0},
  },
  hintsWithCapital: {
    modes: ['iptables', 'ipvs'],
    what: 'the annotation of zone hints may be `Auto`, not only `auto` (gate TopologyAwareHints)',
    pulls: [100728, 101053],
    first: {21: 1, 22: 0},
  },
} as const satisfies Readonly<Record<string, RuleChange>>;

/** A bug that no rule shows, and the patches that mend it. `what` says what the bug does. */
export interface MendedBug extends PatchChange {
  readonly modes: readonly RulesMode[];
  /** The first minor with the bug. */
  readonly since: number;
}

const everyMode: readonly RulesMode[] = ['iptables', 'ipvs', 'nftables'];

/** `docs/dev/patch-releases.md` has the same table. */
export const mendedBugs = {
  lostUpdates: bug(['iptables'], '1.27.11 1.28.7 1.29.2 1.30.0', 27, [122204], 'an update is lost when a partial sync fails'),
  hourlyIpvs: bug(['ipvs'], '1.34.4 1.35.1 1.36.0', 34, [135631], 'what others changed is put right once an hour only'),
  newerNft: bug(['nftables'], '1.33.11 1.34.7 1.35.4 1.36.0', 29, [137501], 'no sync succeeds beside tables that nft 1.1.2 or newer wrote'),
  flowsToBalancers: bug(
    ['iptables'],
    '1.20.10 1.21.4 1.22.1 1.23.0',
    5,
    [104009],
    'UDP flows to load-balancer addresses stay when endpoints go',
  ),
  flowsToIpvsBalancers: bug(['ipvs'], '1.22.3 1.23.0', 5, [105650], 'UDP flows to load-balancer addresses stay when endpoints go'),
  flowsOfUnready: bug(['iptables'], '1.22.4 1.23.0', 22, [106239], 'UDP flows to endpoints that are no longer ready stay'),
  flowsFromStart: bug(
    everyMode,
    '1.28.14 1.29.9 1.30.5 1.31.1 1.32.0',
    5,
    [126532, 126687],
    'UDP flows that began before the first sync may stay untranslated',
    {mayHave: {30: 4}},
  ),
  flowsOfTerminating: bug(everyMode, '1.29.10 1.30.6 1.31.2 1.32.0', 29, [127780, 127806], 'UDP flows to endpoints that terminated stay'),
  flowsUnreconciled: bug(everyMode, '1.32.3 1.33.0', 32, [130034, 130505], 'some stale UDP flows are not found'),
  flowsOfEmpty: bug(everyMode, '1.37.0', 32, [139629], 'UDP flows of a Service that lost its last endpoint stay'),
};

/** A row of the table: where it is, the patches that mend it, the first minor with it, pull requests, and what it does. */
function bug(
  modes: readonly RulesMode[],
  mended: string,
  since: number,
  pulls: readonly number[],
  what: string,
  more: Pick<PatchChange, 'mayHave'> = {},
): MendedBug {
  const first = Object.fromEntries(mended.split(' ').map(version => version.split('.').slice(1).map(Number) as [number, number]));
  return {modes, what, pulls, since, first, ...more};
}

/** Whether this version has the change. A version without a patch counts as the newest patch of its minor. */
export function hasChange({minor, patch}: KubeProxyVersion, change: PatchChange): boolean {
  const first = change.first[minor];
  if (first === undefined) return minor > Math.max(...Object.keys(change.first).map(Number));
  return patch === null || patch >= first;
}

/** What versions of a kube-proxy tell apart. */
type VersionTest = (version: KubeProxyVersion) => boolean;

/** True from this minor version on. */
export function since(first: number): VersionTest {
  return ({minor}) => minor >= first;
}

/** True up to this minor version, and in it. */
export function upTo(last: number): VersionTest {
  return ({minor}) => minor <= last;
}

/** True where a feature gate is on, which is so by itself from `on` on; of no version before `from`, and of all from `locked` on. */
export function byGate(gate: string, {from = 0, on = Infinity, locked = Infinity}: {from?: number; on?: number; locked?: number}) {
  return ({minor}: KubeProxyVersion, gates: FeatureGates): boolean =>
    minor >= from && (minor >= locked || isGateOn(gates, gate, minor >= on));
}

/** True of the patch releases with the change, and after them. */
export function sinceChange(change: PatchChange): VersionTest {
  return version => hasChange(version, change);
}

/** Whether a kube-proxy of this version may have the bug: a patch that is not known may be an old one. */
export function mayHaveBug(version: KubeProxyVersion, bug: MendedBug): boolean {
  return version.minor >= bug.since && !hasChange({...version, patch: version.patch ?? 0}, bug);
}

/** The first version that mends the bug: of the same minor if one does, such as `1.31.2`. */
export function mendedIn({minor}: KubeProxyVersion, {first}: MendedBug): string {
  const [next = minor] = Object.keys(first)
    .map(Number)
    .filter(other => other >= minor)
    .sort((a, b) => a - b);
  return `1.${next}.${first[next] ?? 0}`;
}

/**
 * The versions whose rules this one may write, the likeliest first. There are several where the patch is not known, is guessed, or is at an
 * edge that no source shows, and for a pre-release, which may lack any change of its version. The rules of a node show which it is.
 */
export function possibleVersions(version: KubeProxyVersion, mode: RulesMode): readonly KubeProxyVersion[] {
  const {minor, patch, isPreRelease} = version;
  const edges = ruleChangesOf(mode).flatMap(change => (isUndecided(version, change) ? (change.first[minor] ?? []) : []));
  const patches = new Set([patch, ...edges.flatMap(first => [first, first - 1])]);
  const own = [...patches].map(one => (one === patch ? version : {...version, patch: one}));
  if (isPreRelease !== true || patch !== 0) return own;
  return [...own, ...possibleVersions({text: version.text, minor: minor - 1, patch: null}, mode)];
}

function ruleChangesOf(mode: RulesMode): readonly PatchChange[] {
  return Object.values<RuleChange>(ruleChanges).filter(({modes}) => modes.includes(mode));
}

/** Whether the version does not say on which side of the change its kube-proxy is, within its minor. */
function isUndecided({minor, patch, isPreRelease, guessed}: KubeProxyVersion, change: PatchChange): boolean {
  const first = change.first[minor];
  if (first === undefined || first === 0) return false;
  if (patch === null || guessed === true) return true;
  if (isPreRelease === true && patch === first) return true;
  return patch < first && patch >= (change.mayHave?.[minor] ?? first);
}

/** A version of the rules alone, without a source that names it. */
export function aboutMinor(minor: number): KubeProxyVersion {
  return {text: `about v1.${minor}`, minor, patch: null, guessed: true};
}
