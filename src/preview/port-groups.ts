import type {ServedPort} from '../expect/cluster/served-port.ts';
import {once} from '../expect/api-index.ts';
import {canonicalAddress, type Cidr, contains, parseAddress, parseCidr} from '../model/address.ts';
import {partition} from '../model/lists.ts';
import type {NftChains, NftTableSource} from '../model/nft-ruleset.ts';
import type {Chain, Ruleset} from '../model/ruleset.ts';
import {thirdPartyChains} from '../analyze/third-party/iptables-rules.ts';

/** The constants by which third-party rules distinguish Service ports. */
export interface RuleConstants {
  readonly networks: readonly Cidr[];
  readonly ports: readonly (readonly [low: number, high: number])[];
  /** They match sets or ranges, whose members are not among the constants. */
  readonly usesSets: boolean;
}

/** All addresses and port numbers in rules. A list of `-m recent` counts as empty, so that it distinguishes no packets. */
export function constantsIn(texts: readonly string[]): RuleConstants {
  const networks = new Map<string, Cidr>();
  const ports = new Map<string, readonly [number, number]>();
  let usesSets = false;
  for (const text of texts) {
    if (/--match-set|@[\w-]/.test(text) || addressRange.test(text)) usesSets = true;
    for (const [found] of text.matchAll(/[0-9a-fA-F]*[.:][0-9a-fA-F.:]*(?:\/\d+)?/g)) {
      const cidr = parseCidr(found) ?? parseCidr(`${found.replace(/:\d+$/, '')}/32`) ?? parseCidr(`${found}/128`);
      if (cidr !== null) networks.set(cidr.text, cidr);
    }
    for (const [, low = '', high = low] of text.matchAll(/\b(\d{1,5})(?:[:-](\d{1,5}))?\b/g))
      ports.set(`${low}-${high}`, [Number(low), Number(high)]);
  }
  return {networks: [...networks.values()], ports: [...ports.values()], usesSets};
}

const addressRange = /\d\.\d+-\d+\.\d|[0-9a-f]*:[0-9a-f:]*-[0-9a-f]*:[0-9a-f]/;

/** Service ports with the same signature match the same third-party rules. `here` is the endpoint that connects to its own Service. */
export function signatureOf(
  {port, endpoints: {cluster, local}}: ServedPort,
  here: string | undefined,
  {networks, ports}: RuleConstants,
): string {
  if (networks.length + ports.length === 0) return '';
  const served = [...cluster, ...local];
  const addresses = [port.clusterIP, ...port.externalIPs, ...port.loadBalancerVIPs, ...served.map(({address}) => address)];
  const numbers = [port.port, port.nodePort, port.healthCheckNodePort, ...new Set(served.map(one => one.port))];
  const {hosts, wide} = byHost(networks);
  const inside = addresses.flatMap((text, place) => {
    const found = wide.flatMap((network, index) => (isInside(network, text) ? index : []));
    const canonical = canonicalAddress(text);
    const host = canonical !== null && hosts.has(canonical) ? [canonical] : [];
    return found.length + host.length === 0 ? [] : [`${place}:${[...host, ...found].join('+')}`];
  });
  const within = ports.map(([low, high]) => numbers.map(number => (low <= number && number <= high ? '1' : '0')).join(''));
  return [served.findIndex(({address}) => address === here), addresses.length, ...inside, ...within].join();
}

/** Single addresses are looked up: rules can name thousands. */
const byHost = once((networks: RuleConstants['networks']) => {
  const [hosts, wide] = partition(networks, ({family, prefix}) => prefix === (family === 'IPv4' ? 32 : 128));
  return {hosts: new Set(hosts.map(({text}) => canonicalAddress(text.replace(/\/\d+$/, '')))), wide};
});

function isInside(network: Cidr, text: string): boolean {
  const address = parseAddress(text);
  return address !== null && contains(network, address);
}

/** The texts of all rules outside of kube-proxy's own chains and tables. */
export function thirdPartyTexts(iptables: readonly Ruleset[], tables: readonly NftTableSource[]): readonly string[] {
  const rules = iptables.flatMap(thirdPartyChains).flatMap(linesOf);
  const nft = tables.flatMap(table => [...('chains' in table ? (table.chains as NftChains).values() : [])].map(chain => chain.text()));
  return [...rules, ...nft];
}

/** The texts of its rules, none of which is parsed. */
function linesOf(chain: Chain): readonly string[] {
  const text = chain.text();
  return text === '' ? [] : text.split('\n');
}
