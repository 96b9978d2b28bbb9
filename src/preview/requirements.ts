import type {AlikePortsInput} from './alike-ports.ts';
import {append} from '../model/lists.ts';
import {allOf} from '../analyze/proxy-mode.ts';
import {forwardingOff} from '../analyze/outcomes/kernel-obstacle.ts';
import {proxyVersion} from '../expect/cluster/cluster-view.ts';
import {overlongNames} from '../expect/nftables/overlong-names.ts';
import {nodeObject} from '../expect/api-index.ts';
import {modesInRules} from '../analyze/leftover-modes.ts';
import {isKernelTooOldForNftables} from '../model/node/node-facts.ts';
import {failureIn, kubeProxyLog} from '../model/node/kube-proxy-failures.ts';
import {families, familyOf} from '../model/address.ts';
import type {Requirement} from '../model/preview-result.ts';
import {isGateOn, type ProxyConfig, standInFor} from '../model/proxy-config.ts';
import {mayHaveBug, mendedBugs} from '../expect/patch-releases.ts';
import {isAtLeast} from '../model/text.ts';
import {refusedSettings, otherTables} from './sides.ts';
import {fileText} from '../model/snapshot.ts';

type RequirementsInput = Pick<AlikePortsInput, 'setup' | 'configAfter' | 'viewAfter'>;

/** A requirement of the one node. */
type Found = Omit<Requirement, 'node'>;

const met = (name: Found['name'], detail: string): Found => ({name, status: 'met', detail});
const unmet = (name: Found['name'], detail: string): Found => ({name, status: 'unmet', detail});
const unknown = (name: Found['name'], detail: string): Found => ({name, status: 'unknown', detail});

/** What a node needs for the change, as met, unmet or unknown. Empty if the mode stays and has no new requirements. */
export function requirementsOf(input: RequirementsInput): readonly Requirement[] {
  const {setup, configAfter} = input;
  const mode = configAfter.mode.value;
  const node = setup.node.name;
  if (mode === setup.config.mode.value && configAfter.version.value.minor === setup.config.version.value.minor)
    return [...forwarding(input), ...settings(input)].map(requirement => ({node, ...requirement}));
  const found: Found[] = [...forwarding(input), modeSupported(configAfter), ...settings(input), ...counters(setup.config, configAfter)];
  const isSwitch = mode !== setup.config.mode.value;
  if (mode === 'nftables')
    append(found, [...(isSwitch ? [kernel(input), modules, nft(input)] : []), ...newerNft(input), ...serviceNames(input)]);
  if (mode === 'ipvs' && isSwitch) {
    const detail = 'the modules ip_vs and ip_vs_rr must be there; no dump shows it. Run on the node: modprobe -an ip_vs ip_vs_rr';
    found.push(unknown('kernel', detail));
  }
  // IPVS mode has rules of iptables too.
  if (isSwitch && setup.config.mode.value === 'nftables') found.push(iptablesModules);
  if (isSwitch) found.push(leftovers(input), ...plugin(input));
  append(found, failedBefore(input));
  return found.map(requirement => ({node, ...requirement}));
}

/** Not what kube-proxy needs, but what its rules are of no use without. */
function forwarding({setup: {facts}, viewAfter, configAfter}: RequirementsInput): readonly Found[] {
  return families.flatMap(family => {
    const name = forwardingOff(facts, family);
    const isServed =
      facts.hostIPs.some(address => familyOf(address) === family) && viewAfter.entries(family, proxyVersion(configAfter)).length > 0;
    if (name === null || !isServed) return [];
    const detail = `${name} is 0: the node forwards no ${family} packets. Its pods reach no Service and its node ports lead to no pod, today and after the change`;
    return [unmet('forwarding', detail)];
  });
}

function modeSupported({mode, version, featureGates}: ProxyConfig): Found {
  const {minor} = version.value;
  const gates = featureGates.value;
  const name = 'mode-supported';
  const standIn = standInFor(version.value);
  const by = `kube-proxy ${version.value.text}`;
  if (standIn !== null) return unknown(name, standIn);
  if (mode.value === 'nftables') {
    if (minor < 29) return unmet(name, `${by} has no nftables mode: 1.29 is the first that has`);
    if (minor < 33 && !isGateOn(gates, 'NFTablesProxyMode', minor >= 31))
      return unmet(name, `${by} needs the feature gate NFTablesProxyMode for nftables mode`);
    return met(name, `${by} has nftables mode${minor < 33 ? ' (beta)' : ''}`);
  }
  if (mode.value === 'ipvs' && minor >= 37 && !isGateOn(gates, 'KubeProxyIPVS', minor < 40))
    return unmet(name, `${by} refuses ipvs mode without the feature gate KubeProxyIPVS`);
  const remark = mode.value === 'ipvs' && minor >= 35 ? '; the mode is deprecated since 1.35' : '';
  return met(name, `${by} has ${mode.value} mode${remark}`);
}

/** Settings with which kube-proxy does not start, or writes nothing. */
function settings({setup, configAfter}: RequirementsInput): readonly Found[] {
  const rulesets = [...setup.dumps.current.values()];
  const today = refusedSettings(setup.config, rulesets);
  const refused = refusedSettings(configAfter, rulesets).filter(detail => !today.includes(detail));
  // In iptables and IPVS mode the backend decides, which only rules tell.
  const status = configAfter.mode.value === 'nftables' || rulesets.length > 0 ? 'unmet' : 'unknown';
  return [...keywords(configAfter), ...refused.map(detail => ({name: 'settings', status, detail}) as const)];
}

/** Up to 1.36 kube-proxy refuses a configuration with the keywords of 1.37. */
function keywords({version, nodePortAddresses}: ProxyConfig): readonly Found[] {
  const given = nodePortAddresses.value;
  const isMixed = given.includes('primary') && given.length > 1;
  const unknown = [...given.filter(text => text === 'localhost' || text === 'all'), ...(isMixed ? ['primary together with others'] : [])];
  if (version.value.minor >= 37 || unknown.length === 0) return [];
  const detail = `kube-proxy ${version.value.text} does not start with nodePortAddresses ${unknown.join(', ')}: 1.37 is the first that knows it`;
  return [unmet('settings', detail)];
}

/** 1.31: rules that count with nfacct (kubernetes#142068). */
function counters({mode, version: {value: before}}: ProxyConfig, after: ProxyConfig): readonly Found[] {
  const isNew = after.mode.value === 'iptables' && after.version.value.minor >= 31 && (mode.value !== 'iptables' || before.minor < 31);
  if (!isNew) return [];
  const detail =
    'kube-proxy 1.31 and newer counts with nfacct: on a kernel with nfnetlink_acct and without xt_nfacct it writes no rules at all; no dump shows it. Run on the node: modprobe -an nfnetlink_acct xt_nfacct';
  return [unknown('kernel', detail)];
}

function kernel({setup}: RequirementsInput): Found {
  const version = nodeObject(setup.api, setup.node.name)?.status?.nodeInfo?.kernelVersion ?? '';
  const isOld = isKernelTooOldForNftables(version);
  if (isOld === null) return unknown('kernel', 'nftables mode needs kernel 5.13 or newer; the Node does not show its kernel');
  return isOld
    ? unmet('kernel', `nftables mode needs kernel 5.13 or newer, and the node runs ${version}: kube-proxy does not start`)
    : met('kernel', `kernel ${version}`);
}

/** siderolabs/pkgs#951: each rule needs its module, and one rule that is refused makes the whole transaction fail. */
const modules: Found = unknown(
  'kernel-modules',
  'nftables mode needs the modules nft_fib, nft_numgen, nft_nat, nft_masq and nft_reject; no dump shows whether the kernel has them. Run on the node: modprobe -an nft_fib_ipv4 nft_fib_ipv6 nft_numgen nft_nat nft_masq nft_reject_inet',
);

/** canonical/microk8s#5525: kernels that are made for nftables leave out those of iptables. */
const iptablesModules: Found = unknown(
  'kernel-modules',
  'rules of iptables need the modules xt_comment, xt_addrtype, xt_conntrack, xt_mark, xt_nat and xt_statistic, and ip_tables or nft_compat; kernels made for nftables lack some, and no dump shows it. Run on the node: modprobe -an xt_comment xt_addrtype xt_conntrack xt_mark xt_nat xt_statistic nft_compat',
);

/** The relevant nft is the one in kube-proxy's image, which only a node in nftables mode shows. */
function nft({setup}: RequirementsInput): Found {
  const version = setup.nft()?.toolVersion ?? null;
  const detail = "nftables mode needs nft 1.0.1 or newer in kube-proxy's image; the official images have it";
  return unknown('nft', version === null ? detail : `${detail}. The dump was made by nft ${version}`);
}

/**
 * kubernetes#136786: when the nft of an image before 1.0.6.1 lists sets that 1.1.2 or newer wrote, it crashes, and nothing is synced.
 * kube-proxy lists only its own tables since kubernetes#137501.
 */
function newerNft({setup, configAfter}: RequirementsInput): readonly Found[] {
  const version = configAfter.version.value;
  if (!mayHaveBug(version, mendedBugs.newerNft)) return [];
  const nft = setup.nft();
  const remedy = 'Use kube-proxy 1.33.11, 1.34.7, 1.35.4, 1.36 or newer';
  if (nft === null) {
    const detail = `kube-proxy ${version.text} cannot sync beside sets that nft 1.1.2 or newer wrote, and the node's nft was not read. Run on the node: nft --version; nft list sets. ${remedy}`;
    return [unknown('nft', detail)];
  }
  const iptables = families.flatMap(family => allOf(setup.dumps, family));
  const others = new Set(otherTables(nft, iptables).map(({id}) => id));
  const named = [...nft.tables.values()].filter(({id, sets}) => others.has(id) && sets.size > 0).map(({id}) => `table ${id}`);
  if (named.length === 0 || nft.toolVersion === null || !isAtLeast(nft.toolVersion, [1, 1, 2])) return [];
  return [
    unmet(
      'nft',
      `${named.join(', ')} ${named.length === 1 ? 'has' : 'have'} sets, and the node uses nft ${nft.toolVersion}: the nft in the image of kube-proxy ${version.text} can crash on them, and then nothing is synced. ${remedy}`,
    ),
  ];
}

/** What kube-proxy's log shows of the planned mode: it failed in it before, on this node. */
function failedBefore({setup, configAfter}: RequirementsInput): readonly Found[] {
  const found = failureIn(fileText(setup.node, kubeProxyLog));
  if (found === null || !failuresOf[configAfter.mode.value]?.test(found.line)) return [];
  const {line, failure} = found;
  const detail = `kube-proxy failed in this mode before: ${failure.cause}. ${failure.remedy} Its log says: ${line}`;
  return [unmet('kube-proxy-log', detail)];
}

const failuresOf: Readonly<Record<string, RegExp>> = {iptables: /nfacct|iptables|xtables/i, ipvs: /ipvs|ip_vs/i, nftables: /nft/i};

function serviceNames({setup, configAfter, viewAfter}: RequirementsInput): readonly Found[] {
  const names = overlongNames({view: viewAfter, config: configAfter, facts: setup.facts});
  const [first] = names.filter(({blocksSync}) => blocksSync).concat(names);
  if (first === undefined) return [];
  const detail = `nft refuses the name ${first.port.servicePortName} (${first.port.servicePortName.length} bytes) as a comment: ${first.blocksSync ? `kube-proxy cannot write ${first.family} at all` : 'kube-proxy cannot sync once the Service has no endpoint'}. Use kube-proxy 1.37 or a shorter name`;
  return [unmet('service-names', detail)];
}

/**
 * When kube-proxy starts in nftables mode it removes the rules of the other modes, and those of nftables when it starts in another;
 * iptables mode removes nothing of IPVS.
 */
function leftovers({setup, configAfter}: RequirementsInput): Found {
  const from = setup.config.mode.value;
  const name = 'leftovers';
  if (from === 'ipvs' && configAfter.mode.value === 'iptables') {
    const detail = 'kube-proxy in iptables mode removes nothing of IPVS mode: run kube-proxy --cleanup between the two, or reboot the node';
    return unmet(name, detail);
  }
  const others = modesInRules({...setup, rulesets: setup.dumps.current}).filter(
    ({mode}) => mode !== from && mode !== configAfter.mode.value,
  );
  if (others.length > 0)
    return unmet(name, `the node also holds rules of ${others.map(({mode, sign}) => `${mode} mode (${sign()})`).join(' and ')}`);
  const [pair] = setup.dumps.both;
  const both =
    pair !== undefined && pair.legacy.chain('nat', 'KUBE-SERVICES') !== undefined && pair.nft.chain('nat', 'KUBE-SERVICES') !== undefined;
  if (both) return unmet(name, 'both backends of iptables hold rules of kube-proxy; it cleans up only the one it uses');
  const remark =
    from === 'ipvs' && configAfter.version.value.minor >= 34 ? ', unless it cannot load ip_vs: look for kube-ipvs0 after the switch' : '';
  const sets = from === 'ipvs' ? '; its ipsets of IPv6 (KUBE-6-…) stay, and nothing uses them' : '';
  return met(name, `kube-proxy removes the rules of ${from} mode when it starts${remark}${sets}`);
}

function plugin({setup, configAfter}: RequirementsInput): readonly Found[] {
  const tables = [...setup.dumps.current.values()].flatMap(ruleset => [...ruleset.tables.values()]);
  const isCalico = tables.some(({chains}) => [...chains.startingWith('cali-')].length > 0);
  if (!isCalico || configAfter.mode.value !== 'nftables') return [];
  const detail = 'Calico writes iptables rules on this node: its NFTablesMode must fit kube-proxy in nftables mode';
  return [unknown('network-plugin', detail)];
}
