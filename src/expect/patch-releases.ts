import type {KubeProxyVersion} from '../model/proxy-config.ts';

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
  lostUpdates: {
    modes: ['iptables'],
    what: 'an update is lost when a partial sync fails',
    pulls: [122204],
    since: 27,
    first: {27: 11, 28: 7, 29: 2, 30: 0},
  },
  hourlyIpvs: {
    modes: ['ipvs'],
    what: 'what others changed is put right once an hour only',
    pulls: [135631],
    since: 34,
    first: {34: 4, 35: 1, 36: 0},
  },
  newerNft: {
    modes: ['nftables'],
    what: 'no sync succeeds beside tables that nft 1.1.2 or newer wrote',
    pulls: [137501],
    since: 29,
    first: {33: 11, 34: 7, 35: 4, 36: 0},
  },
  flowsToBalancers: {
    modes: ['iptables'],
    what: 'UDP flows to load-balancer addresses stay when endpoints go',
    pulls: [104009],
    since: 5,
    first: {20: 10, 21: 4, 22: 1, 23: 0},
  },
  flowsToIpvsBalancers: {
    modes: ['ipvs'],
    what: 'UDP flows to load-balancer addresses stay when endpoints go',
    pulls: [105650],
    since: 5,
    first: {22: 3, 23: 0},
  },
  flowsOfUnready: {
    modes: ['iptables'],
    what: 'UDP flows to endpoints that are no longer ready stay',
    pulls: [106239],
    since: 22,
    first: {22: 4, 23: 0},
  },
  flowsFromStart: {
    modes: everyMode,
    what: 'UDP flows that began before the first sync may stay untranslated',
    pulls: [126532, 126687],
    since: 5,
    first: {28: 14, 29: 9, 30: 5, 31: 1, 32: 0},
    mayHave: {30: 4},
  },
  flowsOfTerminating: {
    modes: everyMode,
    what: 'UDP flows to endpoints that terminated stay',
    pulls: [127780, 127806],
    since: 29,
    first: {29: 10, 30: 6, 31: 2, 32: 0},
  },
  flowsUnreconciled: {
    modes: everyMode,
    what: 'some stale UDP flows are not found',
    pulls: [130034, 130505],
    since: 32,
    first: {32: 3, 33: 0},
  },
  flowsOfEmpty: {
    modes: everyMode,
    what: 'UDP flows of a Service that lost its last endpoint stay',
    pulls: [139629],
    since: 32,
    first: {37: 0},
  },
} as const satisfies Readonly<Record<string, MendedBug>>;

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
