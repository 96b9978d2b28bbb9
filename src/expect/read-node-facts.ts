import {type Address, type Family, parseAddress} from '../model/address.ts';
import type {NetworkFacts, NodeFacts} from '../model/node/node-facts.ts';
import {fileText, type ApiObjects, type NodeDump, type Problem} from '../model/snapshot.ts';
import {parseLocalAddresses, parseNodeAddresses} from '../parse/ipvs/kube-ipvs0.ts';
import {
  parseConnectionStatistics,
  parseInterfaceSwitches,
  parseLinks,
  parsePolicyRules,
  parseRoutes,
  parseSysctls,
} from '../parse/network-facts.ts';
import {nodeNamesByAddress, nodeObject} from './api-index.ts';
import {ownPods, podCIDRsOf, podsByNode} from './node-context.ts';
import {once} from '../model/once.ts';

/** The facts about a node: from the Node object, and from its interfaces if they were read. */
export function nodeFacts(node: NodeDump, api: ApiObjects): NodeFacts {
  return readNodeFacts(node, api).facts;
}

/** The same, and why the list of the node's interfaces is invalid; null if it is valid or missing. */
export function readNodeFacts(node: NodeDump, api: ApiObjects): {readonly facts: NodeFacts; readonly problem: Problem | null} {
  const object = nodeObject(api, node.name);
  const hostIPs = ['InternalIP', 'ExternalIP'].flatMap(type =>
    (object?.status?.addresses ?? []).flatMap(entry => (entry.type === type && entry.address !== undefined ? [entry.address] : [])),
  );
  const parsed = parseNodeAddresses(node.read('addresses.json')?.toString('utf8') ?? '[]');
  const interfaces = parsed ?? [];
  const own = parsed?.length ? interfaces.flatMap(({addresses}) => addresses) : parseLocalAddresses(fileText(node, 'local-addresses'));
  const facts = {
    name: node.name,
    hostIPs,
    addresses: own.length > 0 ? own : [...hostIPs, '127.0.0.1', '::1'],
    allAddresses: own.length > 0,
    podCIDRs: podCIDRsOf(object),
    zone: object?.metadata.labels?.['topology.kubernetes.io/zone'] ?? null,
    kernelVersion: object?.status?.nodeInfo?.kernelVersion ?? '',
    labels: object?.metadata.labels ?? {},
    onLink: interfaces.flatMap(({name, networks}) => networks.map(network => ({name, network}))),
    primaryInterface: interfaces.find(({addresses}) => addresses.some(address => hostIPs.includes(address)))?.name ?? null,
    network: networkFacts(node),
  };
  const podAddresses = (family: Family): readonly string[] => ownPods(facts, api, family);
  const message = `nodes/${node.name}/addresses.json is not what "ip -j addr" prints: only the addresses in the Node object are known`;
  const podOfNode = ({text, family}: Address): Address | null => {
    const [pod] = podsByNode(api, family).get(nodeNamesByAddress(api).get(text) ?? '') ?? [];
    return pod === undefined ? null : parseAddress(pod);
  };
  return {facts: {...facts, podAddresses, podOfNode}, problem: parsed === null ? {node: node.name, message} : null};
}

/** What was read of a node beside its rules. A file is parsed when something asks for it: routes can be many. */
function networkFacts(node: NodeDump): NetworkFacts {
  return {
    get links() {
      return linksOf(node);
    },
    get routes() {
      return routesOf(node);
    },
    get policyRules() {
      return policyRulesOf(node);
    },
    get sysctls() {
      return sysctlsOf(node);
    },
    get connections() {
      return connectionsOf(node);
    },
    get connectionsAfter() {
      return connectionsAfter(node);
    },
  };
}

/** Both list all interfaces; the first has more details. */
const linksOf = once((node: NodeDump) => parseLinks(fileText(node, 'links.json')) ?? parseLinks(fileText(node, 'addresses.json')));
const routesOf = once((node: NodeDump) => parseRoutes(fileText(node, 'routes.json')));
const policyRulesOf = once((node: NodeDump) => ({
  IPv4: parsePolicyRules(fileText(node, 'ip-rules.json'), 'IPv4'),
  IPv6: parsePolicyRules(fileText(node, 'ip6-rules.json'), 'IPv6'),
}));
const sysctlsOf = once((node: NodeDump) => {
  const own = parseSysctls(['sysctls', 'interface-sysctls', 'asked-by-rules'].map(file => fileText(node, file)).join('\n'));
  const ofInterfaces = parseInterfaceSwitches(fileText(node, 'netconf.json'));
  return own === null || ofInterfaces === null ? (own ?? ofInterfaces) : new Map([...ofInterfaces, ...own]);
});
const connectionsOf = once((node: NodeDump) => parseConnectionStatistics(fileText(node, 'conntrack-stats')));
const connectionsAfter = once((node: NodeDump) => parseConnectionStatistics(fileText(node, 'conntrack-stats-after')));
