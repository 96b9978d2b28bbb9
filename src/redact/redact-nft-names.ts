import {servicePortHash} from '../expect/iptables/chain-names.ts';
import {parseAddress, joinHostPort} from '../model/address.ts';
import type {Replacements} from './replacements.ts';

/** The name of a chain or set that kube-proxy created for a Service port or an endpoint. */
interface NftName {
  readonly role: string;
  readonly hash: string;
  /** `namespace/name/protocol/port`, and for an endpoint `__address/port`. */
  readonly content: string;
  readonly namespace: string;
  readonly service: string;
  readonly port: string;
  /** With dots in place of the colons of IPv6. */
  readonly endpoint: {readonly address: string; readonly port: string} | null;
}

/** The new name of a chain or set: for those of a Service port or an endpoint, the name that kube-proxy would derive from the new names. */
export function redactNftName(name: string, replacements: Replacements): string {
  const parsed = parseNftName(name);
  if (parsed === null) return name.includes('/') ? `name-${replacements.hash.letters('nft', name, 12)}` : name;
  const content = newContent(parsed, replacements);
  const isRight = nftHash(parsed.content) === parsed.hash;
  const hash = isRight ? nftHash(content) : replacements.hash.letters('nft', parsed.hash, 8).toUpperCase();
  return `${parsed.role}-${hash}-${content}`;
}

/** The new name of a chain, set or other object of a table. In tables of other programs, they are named as in iptables. */
export function redactObjectName(name: string, isKubeProxys: boolean, replacements: Replacements): string {
  if (isKubeProxys && (parseNftName(name) !== null || kubeProxyNames.has(name))) return redactNftName(name, replacements);
  return commonTables.has(name) ? name : replacements.chains.replace(name);
}

/** Names of tables that every cluster may have. */
export const commonTables: ReadonlySet<string> = new Set(['kube-proxy', 'filter', 'nat', 'mangle', 'raw', 'security', 'firewalld']);

/** The chains, sets and maps of kube-proxy that are not of one Service. */
const kubeProxyNames = new Set(
  `
  services service-endpoints-check nodeport-endpoints-check cluster-ips-check firewall-check firewall-allow-check reject-chain masquerading
  mark-for-masquerade nat-prerouting nat-postrouting nat-output filter-prerouting filter-prerouting-pre-dnat filter-input filter-forward
  filter-output filter-output-pre-dnat filter-output-post-dnat cluster-ips nodeport-ips service-ips service-nodeports no-endpoint-services
  no-endpoint-nodeports firewall-ips firewall-allow hairpin-connections
`
    .trim()
    .split(/\s+/),
);

/** The endpoint (`address:port`) in a chain's name; null for other chains. */
export function nftEndpoint(name: string): string | null {
  const endpoint = parseNftName(name)?.endpoint ?? null;
  if (endpoint === null) return null;
  return joinHostPort(plainAddress(endpoint.address), endpoint.port);
}

function parseNftName(name: string): NftName | null {
  const found =
    /^(service|local|external|firewall|endpoint|affinity)-([A-Z2-7]{8})-(([^/]+)\/([^/]+)\/([a-z]+\/[^_]*)(?:__([^/]+)\/(\d+))?)$/.exec(
      name,
    );
  if (found === null) return null;
  const [, role = '', hash = '', content = '', namespace = '', service = '', port = '', address, endpointPort = ''] = found;
  return {role, hash, content, namespace, service, port, endpoint: address === undefined ? null : {address, port: endpointPort}};
}

function newContent({namespace, service, port, endpoint}: NftName, {names, addresses}: Replacements): string {
  const [protocol = '', name = ''] = port.split('/');
  const owner = `${names.replace(namespace, 'namespace')}/${names.replace(service, 'service')}/${protocol}/${names.port(name)}`;
  if (endpoint === null) return owner;
  const address = plainAddress(endpoint.address);
  return `${owner}__${(addresses.replace(address) ?? address).replaceAll(':', '.')}/${endpoint.port}`;
}

function plainAddress(written: string): string {
  return parseAddress(written) === null ? written.replaceAll('.', ':') : written;
}

/** Follows `hashAndTruncate`: half as long as the hash in the names of iptables chains. */
function nftHash(content: string): string {
  return servicePortHash(content, '').slice(0, 8);
}
