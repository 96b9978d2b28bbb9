import {type Address, type Cidr, contains, parseAddress, parseCidr} from '../../model/address.ts';
import {someOf} from '../../model/text.ts';
import {podsIn} from './listed-pods.ts';

/** Networks of which a text tells twice, and differently: by flags, settings, the plugin, and addresses of pods, Services and nodes. */
export function mixedRanges(
  lines: readonly string[],
  services: readonly {readonly name: string; readonly clusterIPs: readonly string[]}[],
  endpoints: ReadonlyMap<string, readonly string[]>,
): readonly string[] {
  const held = (ip: string | null | undefined, text: string): readonly {readonly text: string; readonly address: Address}[] => {
    const address = parseAddress(ip ?? '');
    return address?.family === 'IPv4' ? [{text, address}] : [];
  };
  // The first address of the range of Services is that of default/kubernetes.
  const asked = lines.flatMap(line => /\bdial tcp (\d+\.\d+\.\d+\.1):443: /.exec(line)?.[1] ?? []);
  const listed = [...services, {name: 'default/kubernetes', clusterIPs: asked}];
  const known = new Set(listed.flatMap(({clusterIPs}) => clusterIPs));
  const named = namedIPs(lines).filter(ip => !known.has(ip));
  const own = [...listed, {name: 'a cluster IP, as the text says', clusterIPs: named}].flatMap(({name, clusterIPs}) =>
    clusterIPs.flatMap(ip => held(ip, `${ip} (${name})`)),
  );
  const pods = podsIn(lines).flatMap(({name, status, ip}) => (status === 'Running' ? held(ip, `pod ${name} has ${ip}`) : []));
  const ofDns = [...endpoints].flatMap(([name, texts]) =>
    /(?:^|\/)kube-dns$/.test(name)
      ? texts.flatMap(text => held(text.split(':')[0], `an endpoint of ${name} has ${text.split(':')[0]}`))
      : [],
  );
  const shared = [...pods, ...ofDns].flatMap(pod => {
    const service = own.find(({address}) => address.value >> 8n === pod.address.value >> 8n);
    if (service === undefined) return [];
    return `${pod.text}, and ${service.text} is a cluster IP in the same network: the range of Services and that of pods overlap, and must not`;
  });
  const networks = lines.flatMap(line =>
    (line.includes('/') ? [...line.matchAll(toldNetwork)] : []).flatMap(([, where = '', text = '']) => {
      const kind = /^FLANNEL_NETWORK|^Network/.test(where) ? 'flannel' : /service/i.test(where) ? 'services' : 'pods';
      // flannel writes the first address of a subnet.
      const cidrs = text.split(',').flatMap(part => parseCidr(part.replace(/^([\d.]+)\.1(?=\/24$)/, '$1.0')) ?? []);
      return cidrs.map(cidr => ({cidr, kind, text: `${cidr.text} (${where})`}));
    }),
  );
  const [ofPods = [], ofServices = [], ofFlannel = []] = ['pods', 'services', 'flannel'].map(wanted =>
    networks.filter(({kind}) => kind === wanted),
  );
  const outside = ofFlannel.flatMap(({text, cidr}) => {
    const others = ofPods.filter(other => !overlap(other.cidr, cidr));
    if (others.length === 0 || others.length < ofPods.length) return [];
    return `the network of flannel is ${text}, and the cluster gives nodes networks of ${others[0]?.text}: flannel ends, and pods get no address or are not reached. Network in the ConfigMap of flannel must be that of the cluster`;
  });
  const mixed = ofServices.flatMap(({text, cidr}) => {
    const other = [...ofPods, ...ofFlannel].find(each => overlap(each.cidr, cidr));
    return other === undefined ? [] : `the range of Services, ${text}, and that of pods, ${other.text}, overlap, and must not`;
  });
  const nodes =
    networks.length === 0
      ? []
      : lines.flatMap(line => {
          const [, node = '', ip] =
            nodeRow.exec(line) ??
            /^\s*(?:Annotations:\s+)?(flannel\S*public-ip|InternalIP|advertiseAddress)[=:]\s*"?([\d.]+)"?\s*$/.exec(line) ??
            [];
          return held(ip, `${ip} (${/-ip$|^InternalIP$|^advertiseAddress$/.test(node) ? 'a node' : `node ${node}`})`);
        });
  const taken = [
    ...ofPods.map(each => ({...each, others: [...nodes, ...own]})),
    ...ofServices.map(each => ({...each, others: nodes})),
  ].flatMap(({cidr, kind, text, others}) => {
    const inside = others.filter(({address}) => contains(cidr, address));
    if (inside.length === 0) return [];
    return `${text}, the network of ${kind}, holds ${someOf([...new Set(inside.map(other => other.text))])}: it must be a network that nothing else has. Their packets are taken for those of ${kind}, and in IPVS mode nodes reach no Service if its addresses are in it`;
  });
  return [...new Set([...outside, ...mixed, ...taken, ...shared.slice(0, 1)])];
}

/** Addresses that words of the text call a cluster IP: after these on their line, or in the command below it. */
function namedIPs(lines: readonly string[]): readonly string[] {
  return lines.flatMap((line, at) => {
    const [rest] = /\b(?:cluster|service)[- ]?ip(?![\w"']*:| range).*/i.exec(line) ?? [];
    if (rest === undefined || /\bNAME\b|-A KUBE-|\/\*/.test(line)) return [];
    const command = lines.slice(at + 1, at + 4).find(text => /[$#]\s+(?:curl|ping|telnet|wget|nc)\s/.test(text)) ?? '';
    return /(?<![\d.])\d+\.\d+\.\d+\.\d+(?![\d./])/.exec(rest + command)?.[0] ?? [];
  });
}

function overlap(one: Cidr, other: Cidr): boolean {
  const holds = (cidr: Cidr, {family, base}: Cidr): boolean => contains(cidr, {family, value: base});
  return holds(one, other) || holds(other, one);
}

const toldNetwork =
  /(--pod-network-cidr|--cluster-cidr|clusterCIDR|podSubnet|FLANNEL_(?:NETWORK|SUBNET)|Network(?="?: *"\d)|(?:PodCIDR|podCIDR)s?|vxlanRoute|--service-cidr|--service-cluster-ip-range|serviceSubnet)["']?[=:\s]+[[(]?["']?(\d[\d./,]*\/\d+)/g;
/** A row of `kubectl get nodes`, with an address if it is wide: `node-a  Ready  <none>  23d  v1.21.3  10.128.149.177`. */
export const nodeRow = /^\s*(\S+)\s+(?:Not)?Ready\S*\s+\S+\s+\w+\s+v\d\S*(?:\s+(\d+\.\d+\.\d+\.\d+)\s)?/;

/** The values that a ConfigMap, `/configz` or the command line of kube-proxy gives to a setting; empty if the text has none of them. */
export function settingsIn(lines: readonly string[], field: string, flag: string): readonly string[] {
  const isOfKubeProxy = lines.some(line => /kube-?proxy\w*Configuration|kubeproxy\.config\.k8s\.io/i.test(line));
  const ofFile = new RegExp(`(?:^\\s*|[{,]\\s*")${field}"?: *"?([^\\s"}]*)`);
  const ofFlag = new RegExp(`\\b(?:kube-|hyperkube )proxy\\b.* --${flag}[= ]"?([^\\s"}]*)`);
  return lines.flatMap(line => (isOfKubeProxy ? ofFile.exec(line)?.[1] : undefined) ?? ofFlag.exec(line)?.[1] ?? []);
}

/** What the settings of kube-proxy say, where a text has nothing else; null if it has none. */
export function listedSettings(lines: readonly string[]): string | null {
  const [mode] = settingsIn(lines, 'mode', 'proxy-mode');
  const cidr = settingsIn(lines, 'clusterCIDR', 'cluster-cidr').at(0) ?? '';
  const [scheduler = ''] = settingsIn(lines, 'scheduler', 'ipvs-scheduler');
  const module =
    mode === 'ipvs' && scheduler !== '' && scheduler !== 'rr' ? `, with the scheduler ${scheduler} (kernel module ip_vs_${scheduler})` : '';
  const pods =
    cidr === ''
      ? 'no network for that of pods (clusterCIDR): unless detectLocalMode has another, it masquerades nothing of what comes to cluster IPs, and nodes may get no answer from pods of other nodes'
      : `clients in ${cidr} for pods (clusterCIDR)`;
  if (mode === undefined) return null;
  return `has settings of kube-proxy: it works in ${mode === '' ? 'iptables mode, since mode is empty' : `${mode} mode${module}`}, and takes ${pods}`;
}
