import type {Family} from '../../model/address.ts';
import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import {parseChainName} from '../iptables/chain-names.ts';
import {detectorFields, type InferredConfig} from '../iptables/infer-config.ts';
import {interfaceDetector} from '../node-context.ts';
import {aboutMinor} from '../patch-releases.ts';

/** What the iptables base rules of IPVS mode show of the kube-proxy that wrote them; null on a node that does not run in this mode. */
export function inferIpvsConfig(rulesets: ReadonlyMap<Family, Ruleset>): InferredConfig | null {
  const all = [...rulesets.values()];
  const services = all.filter(ruleset => ruleset.chain('nat', 'KUBE-SERVICES')?.text().includes('-j KUBE-NODE-PORT'));
  // If chains of Services are in use, those of IPVS are leftovers.
  if ((services.length === 0 && !isPartOfIpvs(all)) || all.some(holdsServiceChains)) return null;
  const masquerade = all.map(
    ruleset =>
      /^-A KUBE-SERVICES (?:! -([si]) (\S+) )?.*CLUSTER-IP (\S+) -j KUBE-MARK-MASQ$/m.exec(
        ruleset.chain('nat', 'KUBE-SERVICES')?.text() ?? '',
      ) ?? null,
  );
  const detectors = masquerade.map(found => {
    const [, option, value = ''] = found ?? [];
    return option === 's' ? ({kind: 'cidr', cidr: value} as const) : option === 'i' ? interfaceDetector(value) : null;
  });
  const mark = /--set-xmark (0x[0-9a-f]+)/.exec(all.map(ruleset => ruleset.chain('nat', 'KUBE-MARK-MASQ')?.text() ?? '').join('\n'));
  return {
    mode: 'ipvs',
    ...detectorFields(detectors),
    masqueradeAll: masquerade.some(found => found !== null && found[1] === undefined && found[3] === 'dst,dst'),
    masqueradeBit: mark === null ? 14 : Math.log2(Number(mark[1])),
    version: fingerprint(all),
  };
}

/** Without KUBE-SERVICES, or while it is empty, the chains that no other mode has show the mode. */
function isPartOfIpvs(rulesets: readonly Ruleset[]): boolean {
  if (rulesets.some(ruleset => (ruleset.chain('nat', 'KUBE-SERVICES')?.ruleCount ?? 0) > 0)) return false;
  const own = ['KUBE-IPVS-FILTER', 'KUBE-IPVS-OUT-FILTER', 'KUBE-NODE-PORT'];
  return rulesets.some(ruleset => own.some(name => ruleset.chain('filter', name) !== undefined) || holdsChainsOfIpvs(ruleset));
}

/** Whether table nat has the chains that kube-proxy makes in IPVS mode alone. */
export function holdsChainsOfIpvs(ruleset: Ruleset): boolean {
  return ['KUBE-LOAD-BALANCER', 'KUBE-NODE-PORT'].every(name => ruleset.chain('nat', name) !== undefined);
}

function holdsServiceChains(ruleset: Ruleset): boolean {
  const services = ruleset.chain('nat', 'KUBE-SERVICES')?.rules() ?? [];
  return services.some(({target}) => parseChainName(target?.name ?? '') !== null);
}

/** The newest version that writes such base rules, its patch aside. */
function fingerprint(rulesets: readonly Ruleset[]): KubeProxyVersion {
  const filter = (chain: string): string => rulesets.map(ruleset => ruleset.chain('filter', chain)?.text() ?? '').join('\n');
  const has = (chain: string): boolean => rulesets.some(ruleset => ruleset.chain('filter', chain) !== undefined);
  const admitsLocal = filter('KUBE-IPVS-FILTER').includes('EXTERNAL-IP-LOCAL');
  if (has('KUBE-IPVS-OUT-FILTER')) return aboutMinor(admitsLocal ? 36 : 29);
  if (admitsLocal || filter('KUBE-IPVS-FILTER').includes('HEALTH-CHECK')) return aboutMinor(28);
  if (has('KUBE-IPVS-FILTER')) return aboutMinor(27);
  if (has('KUBE-PROXY-FIREWALL')) return aboutMinor(25);
  return filter('KUBE-FORWARD').includes('pod source rule') ? aboutMinor(22) : aboutMinor(23);
}
