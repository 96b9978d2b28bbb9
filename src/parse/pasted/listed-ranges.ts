import {contains, parseAddress, parseCidr} from '../../model/address.ts';
import {someOf} from '../../model/text.ts';

/** Cluster IPs in the network of a listed pod, and in the clusterCIDR that kube-proxy is given, which is that of pods. */
export function mixedRanges(
  lines: readonly string[],
  services: readonly {readonly name: string; readonly clusterIPs: readonly string[]}[],
): readonly string[] {
  const own = services.flatMap(({name, clusterIPs}) =>
    clusterIPs.flatMap(text => {
      const address = parseAddress(text);
      return address?.family === 'IPv4' ? [{address, name: `${text} (${name})`}] : [];
    }),
  );
  if (own.length === 0) return [];
  const pods = lines.flatMap(line => {
    const [, name = '', text = ''] = podRow.exec(line) ?? [];
    const address = parseAddress(text);
    return address === null ? [] : [{name, address}];
  });
  const shared = pods.flatMap(pod => {
    const service = own.find(({address}) => address.value >> 8n === pod.address.value >> 8n);
    return service === undefined ? [] : `pod ${pod.name} has ${pod.address.text}, and ${service.name} is a cluster IP in the same network`;
  });
  const cidrs = [...new Set(settingsIn(lines, 'clusterCIDR', 'cluster-cidr').join().split(','))].flatMap(text => parseCidr(text) ?? []);
  const inside = cidrs.flatMap(cidr => {
    const names = own.flatMap(({address, name}) => (contains(cidr, address) ? [name] : []));
    return names.length === 0
      ? []
      : `the clusterCIDR of kube-proxy, ${cidr.text}, holds ${someOf(names)}: it must be the network of pods, by which kube-proxy tells them from other clients. In IPVS mode nodes then reach no Service, and in other modes policies see nodes in place of pods`;
  });
  return [...shared.slice(0, 1).map(text => `${text}: the range of Services and that of pods overlap, and must not`), ...inside];
}

/** `web-1  1/1  Running  0  3h  10.32.0.3  w1`, of `kubectl get pods -o wide`. */
const podRow = /^\s*(?:\S+\s+)?(\S+)\s+\d+\/\d+\s+Running\s+\d+(?: \([^)]*\))?\s+\w+\s+(\d+\.\d+\.\d+\.\d+)\s+\S/;

/** The values that a ConfigMap, `/configz` or the command line of kube-proxy gives to a setting; empty if the text has none of them. */
function settingsIn(lines: readonly string[], field: string, flag: string): readonly string[] {
  const isOfKubeProxy = lines.some(line => /KubeProxyConfiguration|kubeproxy\.config\.k8s\.io/.test(line));
  const ofFile = new RegExp(`(?:^\\s*|[{,]\\s*")${field}"?: *"?([^\\s"}]*)`);
  const ofFlag = new RegExp(`\\b(?:kube-|hyperkube )proxy\\b.* --${flag}[= ]"?([^\\s"}]*)`);
  return lines.flatMap(line => (isOfKubeProxy ? ofFile.exec(line)?.[1] : undefined) ?? ofFlag.exec(line)?.[1] ?? []);
}

/** What the settings of kube-proxy say, where a text has nothing else; null if it has none. */
export function listedSettings(lines: readonly string[]): string | null {
  const [mode] = settingsIn(lines, 'mode', 'proxy-mode');
  const cidr = settingsIn(lines, 'clusterCIDR', 'cluster-cidr').at(0) ?? '';
  return mode === undefined
    ? null
    : `has settings of kube-proxy: it works in ${mode === '' ? 'iptables mode, since mode is empty' : `${mode} mode`}, and takes ${cidr === '' ? 'no network for that of pods' : `clients in ${cidr} for pods`} (clusterCIDR). What it does with Services is in the rules of a node: iptables-save, nft list ruleset or ipvsadm -Ln`;
}
