/** What one line of a program or of the kernel says by itself, in the words of this program. */
interface ToldCause {
  /** A line without them does not begin one. */
  readonly words: RegExp;
  readonly pattern: RegExp;
  readonly text: (...groups: readonly string[]) => string;
}

const told: readonly ToldCause[] = [
  {
    words: /is forbidden: User/,
    pattern: /is forbidden: User "(system:[^"]+)" cannot (\w+) resource "(services|endpoints|endpointslices|nodes|pods|namespaces)"/,
    text: (user = '', verb = '', resource = '') =>
      `the API server does not let ${user} ${verb} ${resource}: ${effectOf(user)}. Its ClusterRole, or what binds it, is missing or older than the program`,
  },
  {
    words: /pod cidr not/,
    pattern: /node "([^"]+)" pod cidr not assigned/,
    text: (node = '') =>
      `the Node ${node} has no podCIDR, so that flannel gives its pods no network: kube-controller-manager gives one with --allocate-node-cidrs and --cluster-cidr (kubeadm init --pod-network-cidr)`,
  },
  {
    words: /flannel net config/,
    pattern: /subnet "([^"]+)" specified in the flannel net config doesn't contain "([^"]+)" PodCIDR of the "([^"]+)" node/,
    text: (network = '', podCIDR = '', node = '') =>
      `the network of flannel (${network}) does not contain ${podCIDR}, the podCIDR of ${node}: pods of the node get no network. Network in the ConfigMap of flannel must be that of the cluster`,
  },
  {
    words: /already has an IP address/,
    pattern: /"?([\w.-]+?)"? already has an IP address different from (\S+)/,
    text: (bridge = '', address = '') =>
      `${bridge} has the address of an earlier network, and pods of the node get none of ${address}: the plugin makes ${bridge} again after ip link delete ${bridge}`,
  },
  {
    words: /BGP not est/,
    pattern: /BGP not established with ((?:[\d.:a-f]+,? ?)+)/,
    text: (peers = '') =>
      `calico-node has no BGP session with ${peers.trim().replaceAll(/, ?/g, ', ')}: pods of those nodes are not reached from this one. A firewall stops TCP port 179, or calico took the address of another interface (IP_AUTODETECTION_METHOD)`,
  },
  {
    words: /not found in the host's/,
    pattern: /node IP: "([^"]+)" not found in the host's network interfaces/,
    text: (address = '') =>
      `no interface of the node has ${address} any more, under which kubelet registers it: Services whose endpoints are programs of the node, such as the API server, are sent to that address. --node-ip must be an address that the node has`,
  },
  {
    words: /vxlanRoute/,
    pattern: /failed to add vxlanRoute \((\S+) -> \S+?\): ([a-z ]+)/,
    text: (network = '', why = '') =>
      `flannel cannot write the route to ${network} (${why.trim()}), so that its pods are not reached from this node: ip addr shows whether flannel.1 is up and has an address of the podCIDR of this node`,
  },
  {
    words: /no such host/,
    pattern: /lookup (\S+) on (\S+:53): no such host/,
    text: (name = '', server = '') =>
      `${server} answers, and knows no name ${name}: packets reach DNS, and the name, its namespace or the search domains of the client are not those of a Service`,
  },
  {
    words: /\bcni (?:plugin|config)|cni\/net\.d/,
    pattern: /(cni (?:plugin not initialized|config uninitialized))|No networks found in \/etc\/cni\/net\.d/,
    text: () =>
      'a node has no network plugin (/etc/cni/net.d is empty): its pods get no address and are no endpoints, and pods of other nodes do not reach it',
  },
  {
    words: /plugin\/loop: Loop/,
    pattern: /plugin\/loop: Loop \(\S+ -> :\d+\) detected/,
    text: () =>
      'CoreDNS sends requests to itself and ends: the resolv.conf that it forwards to names the resolver of the node itself (127.0.0.53). resolvConf of kubelet, or forward in the Corefile, must name other servers',
  },
  {
    words: /neighbor table/,
    pattern: /\b(\w+_cache): neighbor table overflow/,
    text: (table = '') =>
      `the kernel has no place for more neighbors (${table}) and drops packets to new ones: net.ipv4.neigh.default.gc_thresh1, 2 and 3 are too small for the pods and nodes`,
  },
];

function effectOf(user: string): string {
  if (/kube-proxy/.test(user)) return 'kube-proxy does not follow them';
  if (/dns/.test(user)) return 'it does not know the names of Services';
  return /flannel|calico|cilium|canal|weave|antrea|kube-router/.test(user)
    ? 'the network plugin does not connect the pods of its node'
    : 'the program does not follow them';
}

/** Words without which a line is none of these. */
export const wordsOfCauses = new RegExp(told.map(({words}) => words.source).join('|'));

/** What lines say, which terminals and logs break. */
export function toldCauses(lines: readonly string[]): readonly string[] {
  const found = lines.flatMap((line, at) => {
    if (!wordsOfCauses.test(line)) return [];
    const entry = lines
      .slice(at, at + maxBroken)
      .map(part => part.trim())
      .join(' ')
      .replaceAll('\\"', '"');
    return told.flatMap(({pattern, text}) => {
      const groups = pattern.exec(entry);
      return groups === null ? [] : text(...groups.slice(1));
    });
  });
  return [...new Set(found)];
}

/** Lines of one entry. */
const maxBroken = 3;
