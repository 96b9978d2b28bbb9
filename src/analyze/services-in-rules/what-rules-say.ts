import {joinHostPort, type Address, parseAddress} from '../../model/address.ts';
import type {NftChain, NftRule, NftRuleset} from '../../model/nft-ruleset.ts';
import {entryText} from '../../model/service-port.ts';
import {uniqueBy} from '../../model/lists.ts';
import {type Chain, matchOptionOf, optionOf, type Rule, type Ruleset, type RuleText} from '../../model/ruleset.ts';
import {hiddenInterfaces} from '../../parse/iptables/iptables-list.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {plural, servicePortText, someOf} from '../../model/text.ts';
import {type ChainResult, limitsFor} from '../../trace/branch.ts';
import {walkIptablesChain} from '../../trace/iptables/walk-packet.ts';
import {walkNftChain} from '../../trace/nftables/walk-nft-packet.ts';
import {type Environment, type Packet, pathRules} from '../../trace/walked-packet.ts';
import {listChain} from '../iptables/chain-texts.ts';
import {withGaps} from '../iptables/text-gaps.ts';
import {packetOf} from '../outcomes/probes.ts';
import type {RulesOfNode} from './services-in-rules.ts';

/** The entries of Services that rules alone show to be refused or dropped, in a few words; but for addresses of which that is known. */
export function closedEntries(traces: readonly PortTrace[], known: ReadonlySet<string>): readonly string[] {
  const closed = traces.flatMap(({service, port, entries}) =>
    entries.flatMap(({entry, endpoints, end}) => {
      const {address} = entry;
      const isKnown = address !== null && (known.has(address) || known.has(joinHostPort(address, entry.port)));
      if (isKnown || endpoints.length > 0 || end?.rule == null || (end.verdict !== 'rejected' && end.verdict !== 'dropped')) return [];
      // A Local policy is that of any address of the Service.
      const at = end.rule.text.endsWith(' : drop') && address !== null ? joinHostPort(address, entry.port) : entryText(entry);
      return [{name: servicePortText(service, port), at, why: whyClosed(end.verdict, end.rule.text)}];
    }),
  );
  return [...Map.groupBy(closed, ({why}) => why)].map(([why, all]) => {
    // The first line has no place for the entries of many.
    const byName = [...Map.groupBy(all, ({name}) => name)].map(([name, own], _, {length}) => {
      const entries = own.map(({at}) => at);
      return length > 2 ? name : `${name} (${someOf(entries, {max: 2})})`;
    });
    const names = someOf(byName, {max: 3, noun: 'Service port'});
    return byName.length === 1 ? `${names} ${why}` : `each of ${plural(byName.length, 'Service port')} ${why}: ${names}`;
  });
}

function whyClosed(verdict: 'rejected' | 'dropped', rule: string): string {
  if (verdict === 'rejected')
    return isOfServer(rule)
      ? 'refuses connections: the virtual server has no real server, or all have the weight 0, as kube-proxy writes it without an endpoint, or with a Local traffic policy without one on this node'
      : 'refuses connections: for kube-proxy it has no endpoint';
  return /no local endpoints| : drop$/.test(rule)
    ? 'is dropped: for kube-proxy it has no endpoint on this node, and its traffic policy is Local'
    : 'is dropped: for kube-proxy it has no endpoint';
}

/** A rule as ipvsadm prints a virtual server. */
export function isOfServer(rule: string): boolean {
  return /^(?:TCP|UDP|SCTP|-A -[tu]) /.test(rule);
}

/** Rules that no packet meets, and why: one before them ends the path of every packet, or has the same port. */
export function unmetRules({tables}: Ruleset): readonly string[] {
  return [...tables.values()].flatMap(({chains}) =>
    [...chains.values()].flatMap(chain =>
      /^KUBE-(?:SVC|SEP|SVL|EXT|FW|XLB|SERVICES|NODEPORTS)/.test(chain.name)
        ? []
        : [afterTheEnd, sharedPorts, toNobody, takenFromPods, droppedAtEnd, droppedForAll, admitsLittle].flatMap(read =>
            read(chain, chains),
          ),
    ),
  );
}

/** A policy or a last rule that drops what passes the node, where none accepts what pods send each other. Chains of network plugins accept it. */
function droppedAtEnd(chain: Chain, chains: {get(name: string): Chain | undefined}): string | readonly string[] {
  const all = chain.rules();
  const [end = all.length] = endsOf(all);
  if (chain.table !== 'filter' || chain.name !== 'FORWARD' || (end === all.length && chain.policy !== 'DROP')) return [];
  const rules = all.slice(0, end);
  const isNarrow = ({text, target}: Rule, at: number): boolean =>
    target === null ||
    isOfDocker(rules, at) ||
    /^(?:KUBE-(?!ROUTER)|DOCKER|DROP$|REJECT$|LOG$|RETURN$)/.test(target.name) ||
    (/^ufw-[\w-]+-forward$/.test(target.name) && chains.get(target.name) === undefined) ||
    bridgeOfOthers.test(text) ||
    / --ctstate RELATED,ESTABLISHED /.test(text);
  // `grep DROP` leaves what accepts out.
  const isTruncated =
    !chain.complete && (rules.length < 2 || !rules.some(({target}) => target !== null && !/^(?:DROP|REJECT)$/.test(target.name)));
  if (isTruncated || !rules.every(isNarrow)) return [];
  const which = chain.complete ? 'rule of it' : 'rule of it that this text has';
  const others = [
    ...(chain.complete ? [] : ['another rule']),
    ...(rules.some(({target}) => target?.name.startsWith('ufw-') === true) ? ['a rule of ufw for what passes the node (ufw route)'] : []),
  ];
  const unless = others.length === 0 ? '' : `, unless ${others.join(' or ')} accepts them`;
  const what = end === all.length ? 'the policy of filter/FORWARD is DROP' : `"${all[end]?.text}" (table filter) stops all packets`;
  const isOfKubeProxy = !chain.complete || rules.some(({target}) => target?.name === 'KUBE-FORWARD');
  return `${what}, and no ${end === all.length ? which : 'rule before it'} accepts packets between pods of two nodes: ${isOfKubeProxy ? 'only masqueraded ones pass, by KUBE-FORWARD' : 'no jump to KUBE-FORWARD of kube-proxy lets masqueraded ones pass either'}${unless}`;
}

/** Rules of Docker's chain for administrators, and of OUTPUT, that drop all packets or those of other networks, whatever a later chain accepts. */
function droppedForAll(chain: Chain): readonly string[] {
  if (chain.table !== 'filter' || !/^(?:DOCKER-USER|OUTPUT)$/.test(chain.name) || !chain.complete) return [];
  const rules = chain.rules();
  const at = rules.findIndex(({target}) => target !== null && /^(?:DROP|REJECT)$/.test(target.name));
  const {options = [], matches = [], text = ''} = rules[at] ?? {};
  const isOfAll =
    matches.every(({name}) => name === 'comment') &&
    (options.length === 0 || (options.length === 1 && options[0]?.flag === '-s' && options[0].negated));
  // Rules for one port, and for connections that exist, leave those of pods.
  const isNarrow = ({text: own, target}: Rule): boolean =>
    target === null || / --dports? | RELATED,ESTABLISHED | -o lo /.test(own) || /^(?:LOG|MARK|NFLOG|KUBE-(?!ROUTER).*)$/.test(target.name);
  if (at < 0 || !isOfAll || !rules.slice(0, at).every(isNarrow)) return [];
  const network = options[0]?.values[0];
  const what = network === undefined ? 'every packet' : `packets that are not from ${network}`;
  const whose =
    chain.name === 'OUTPUT'
      ? 'those of the node itself'
      : `those of pods too${network === undefined ? '' : ' where their network is not in it'}, unless a rule of FORWARD before it accepts them`;
  return [`"${text}" (table filter) drops ${what} that ${network === undefined ? 'comes' : 'come'} to it: ${whose}`];
}

/** What comes to the node itself, or leaves it, where a chain stops all but some ports. Rules for networks and interfaces may be those of pods. */
function admitsLittle(chain: Chain): string | readonly string[] {
  const all = chain.rules();
  const [end = all.length] = endsOf(all);
  const effect = ofTheNode[chain.name];
  if (chain.table !== 'filter' || effect === undefined || (end === all.length && !(chain.policy === 'DROP' && chain.complete))) return [];
  const rules = all.slice(0, end);
  const ports = rules.flatMap(rule =>
    rule.target?.name === 'ACCEPT' ? (matchOptionOf(rule, '--dport') ?? matchOptionOf(rule, '--dports') ?? []) : [],
  );
  const isNarrow = ({text, target, options}: Rule): boolean =>
    target === null ||
    /^(?:KUBE-(?!ROUTER)|f2b-|DROP$|REJECT$|LOG$|RETURN$)/.test(target.name) ||
    (target.name === 'ACCEPT' &&
      (/ -p icmp| -i lo | RELATED,ESTABLISHED /.test(text) || (/ --dports? /.test(text) && options.every(({flag}) => flag === '-p'))));
  if (!rules.every(isNarrow) || ports.some(port => ofCluster.test(port))) return [];
  const but = ports.length === 0 ? 'accepts anything' : `accepts more than port ${someOf([...new Set(ports)])}`;
  if (end === all.length) return `the policy of filter/${chain.name} is DROP, and no rule of it ${but}: ${effect}`;
  return `"${all[end]?.text}" (table filter) stops all packets, and no rule before it ${but}: ${effect}`;
}

const ofTheNode: Readonly<Record<string, string>> = {
  INPUT:
    'the node gets nothing else of pods and other hosts, not for the API server, kubelet, VXLAN or BGP, nor for Services where IPVS or a program of the node (userspace mode) serves them',
  OUTPUT: 'the node itself reaches nothing, no Service either',
};

/** Ports of the API server, kubelet, VXLAN, BGP and Services: who opens one knows of the cluster. */
const ofCluster = /(?:^|,)(?:6443|10250|8472|4789|179|[12]?\d{1,4}:\d+|3[0-2]\d{3}(?::\d+)?)(?:,|$)/;

/** A rule of another program for one port of every address: pods ask for that port elsewhere. Without -v a listing hides interfaces. */
function takenFromPods(chain: Chain): readonly string[] {
  if (chain.table !== 'nat' || chain.name !== 'PREROUTING') return [];
  const own = chain
    .rules()
    .filter(
      rule =>
        /^(?:REDIRECT|DNAT)$/.test(rule.target?.name ?? '') &&
        rule.options.every(({flag}) => flag === '-p') &&
        rule.matches.every(({name}) => /^(?:tcp|udp|multiport|comment)$/.test(name)) &&
        (matchOptionOf(rule, '--dport') ?? matchOptionOf(rule, '--dports')) !== undefined,
    );
  return uniqueBy(own, ({text}) => text).map(
    rule =>
      `"${rule.text}" (table nat) names no interface and no destination: what pods send to that port of any address, and no rule before it translates, comes there too`,
  );
}

/**
 * `iptables -L` without `-v` leaves out the interface of Docker's rules for a bridge: established, DOCKER, from it, and to itself, in this
 * order.
 */
function isOfDocker(rules: readonly Rule[], at: number): boolean {
  const jump = [at - 1, at - 2].find(place => rules[place]?.target?.name === 'DOCKER');
  const accepts = ({target, options, matches}: Rule): boolean =>
    target?.name === 'ACCEPT' && options.length === 0 && matches.every(({name}) => name === hiddenInterfaces);
  const own = rules.slice(jump === undefined ? 0 : jump + 1, at + 1);
  return jump !== undefined && / --ctstate RELATED,ESTABLISHED\b/.test(rules[jump - 1]?.text ?? '') && own.every(accepts);
}

/** What follows a rule that ends the path of every packet. */
function afterTheEnd(chain: Chain): string | readonly string[] {
  const rules = chain.rules();
  const [at = rules.length] = endsOf(rules);
  const end = rules[at];
  const after = rules.length - at - 1;
  if (end === undefined || after === 0) return [];
  const verb = end.target?.name === 'DROP' ? 'drops' : 'refuses';
  return `"${end.text}" (table ${chain.table}) ${verb} every packet that comes to it: ${plural(after, 'rule')} after it in ${chain.name} ${after === 1 ? 'is' : 'are'} never met`;
}

/** Where a rule ends the path of every packet. */
function endsOf(rules: readonly Rule[]): readonly number[] {
  return rules.flatMap(({options, matches, target, text}, at) => {
    // Without -v a listing hides interfaces, and only a firewall for all of them refuses so.
    const isPlain = (name: string): boolean => name === 'comment' || (name === hiddenInterfaces && text.includes('icmp-host-prohibited'));
    const isEnd = options.length === 0 && matches.every(({name}) => isPlain(name)) && /^(?:DROP|REJECT)$/.test(target?.name ?? '');
    return isEnd ? [at] : [];
  });
}

/** Rules of programs that publish ports, which send the same packets to different places. The first of them wins. */
function sharedPorts(chain: Chain, chains: {get(name: string): Chain | undefined}): readonly string[] {
  const rules = chain.rules().flatMap(rule => {
    const port = matchOptionOf(rule, '--dport') ?? matchOptionOf(rule, '--dports');
    const name = rule.target?.name ?? '';
    const conditions = JSON.stringify([rule.options, rule.matches.filter(({name: own}) => own !== 'comment')]);
    // A rule of one address leaves the others to the next.
    const chain = chains.get(name);
    const takes = () => chain?.rules().some(own => own.target?.name === 'DNAT' && optionOf(own, '-d') === undefined);
    return port === undefined ? [] : [{name, port: `${port}/${optionOf(rule, '-p') ?? 'any'}`, conditions, takes}];
  });
  return rivalsText(chain.name, rules);
}

interface Publication {
  /** The chain that it jumps to. */
  readonly name: string;
  readonly port: string;
  readonly conditions: string;
  /** Whether that chain translates all packets; undefined where it is not shown. */
  readonly takes: () => boolean | undefined;
}

function rivalsText(chain: string, rules: readonly Publication[]): readonly string[] {
  const published = rules.filter(({name}) => /^(?:CNI-DN-|KUBE-HP-)/.test(name));
  const alike = [...Map.groupBy(published, ({conditions}) => conditions).values()].filter(
    all => new Set(all.map(({name}) => name)).size > 1,
  );
  return alike.flatMap(([first, ...others]) => {
    const takes = first?.takes();
    if (first === undefined || takes === false) return [];
    const rest = someOf(others.map(({name}) => name));
    return `${plural(others.length + 1, 'rule')} of ${chain} publish port ${first.port}: ${takes === true ? '' : 'if it translates packets, '}${first.name} is the first and gets all of them, ${rest} none. One of a pod that is gone was left behind`;
  });
}

/** The same of nftables: ports that two rules publish, and policies that drop what passes the node. */
export function unmetNftRules({tables}: NftRuleset): readonly string[] {
  const own = [...tables.values()].filter(({id}) => id.endsWith(' kube-proxy'));
  if (own.length > 0 && own.every(({complete, chains, sets}) => complete && chains.size + sets.size === 0))
    return [
      `${own.map(({id}) => `table ${id}`).join(' and ')} ${own.length === 1 ? 'is' : 'are'} empty: kube-proxy of this node has written no rules in nftables mode, or has removed them, and its log says why`,
    ];
  return [...tables.values()].flatMap(({id, chains}) =>
    [...chains.values()].flatMap(chain => [
      ...rivalsText(
        chain.name,
        chain.rules().flatMap(rule => nftPublication(rule, chains)),
      ),
      ...(chain.base?.hook === 'forward' ? stoppedInForward(id, chain) : []),
    ]),
  );
}

/** A policy or a rule for all packets that stops those between pods, too. */
function stoppedInForward(id: string, chain: NftChain): readonly string[] {
  const bodies = chain.rules().map(({body}) => body.replace(/\bcounter(?: packets \d+ bytes \d+)? ?/, ''));
  const at = bodies.findIndex(body => /^(?:log\b.* )?(?:drop|reject(?: with .*)?)$/.test(body));
  const isEnd = at >= 0 || (chain.base?.policy === 'drop' && chain.complete);
  if (!isEnd || !bodies.slice(0, at < 0 ? undefined : at).every(isNarrowOfNft)) return [];
  return [
    at < 0
      ? `the policy of ${id} ${chain.name} is drop, and no rule of it accepts packets between pods, whatever the table of kube-proxy accepts`
      : `"${bodies[at]}" of ${id} ${chain.name} stops every packet that passes the node, and no rule before it accepts those between pods, whatever the table of kube-proxy accepts`,
  ];
}

/** Only packets of connections that exist, or by interfaces that are not those of pods. */
function isNarrowOfNft(body: string): boolean {
  const [, name] = /\b[io]if(?:name)? "?([\w.-]+)/.exec(body) ?? [];
  return (
    /^ct state (?:established|related)[\w,{} ]* accept$|^ct state invalid\b|\b(?:drop|reject)\b/.test(body.replace(/ counter\b/, '')) ||
    (name !== undefined && /^(?:lo|docker\d+|wg\d+|tun\d+|virbr\d+|tailscale\d+)$/.test(name))
  );
}

/** `ip protocol tcp tcp dport 8080 counter jump CNI-DN-…`. */
function nftPublication({body}: NftRule, chains: {get(name: string): NftChain | undefined}): readonly Publication[] {
  const [, conditions = '', name = ''] = /^(.*?)(?:counter )?(?:jump|goto) (\S+)$/.exec(body) ?? [];
  const [, protocol, port] = /\b(?:th|(tcp|udp|sctp)) dport (\{[^}]*\}|\S+)/.exec(conditions) ?? [];
  if (port === undefined) return [];
  const chain = chains.get(name);
  const takes = () => chain?.rules().some(own => /\bdnat\b/.test(own.body) && !/\bdaddr\b/.test(own.body));
  return [{name, port: `${port}/${protocol ?? 'any'}`, conditions, takes}];
}

/** No packet has the destination 0.0.0.0: an old plugin wrote it for all addresses. */
function toNobody(chain: Chain): readonly string[] {
  const rules = chain.rules().filter(rule => rule.target?.name === 'DNAT' && /^0\.0\.0\.0(?:\/32)?$/.test(optionOf(rule, '-d') ?? ''));
  return rules.map(({text}) => `"${text}" translates nothing: no packet has the destination 0.0.0.0`);
}

/** Docker and the like: pods are mostly on other bridges. */
export const bridgeOfOthers = /(?<!! )-[io] (docker\d+|br-[\da-f]{12}|docker_gwbridge|virbr\d+|lxcbr\d+|lxdbr\d+|podman\d+)\b/;

export interface TakenEntry {
  readonly trace: PortTrace;
  readonly entry: PortTrace['entries'][number]['entry'];
  /** The address of the entry, and its port. */
  readonly at: string;
  /** In words: `are sent to 10.9.9.9:80`. */
  readonly effect: string;
  /** The sources that rules on the path ask for; empty for any. */
  readonly sources: readonly string[];
  readonly rule: RuleText;
}

/** What packets meet in table nat before the chains of kube-proxy. */
interface Before {
  readonly family: PortTrace['family'] | null;
  readonly origin: Packet['origin'];
  /** IPVS needs no chain of table nat that the text would have to show. */
  readonly isOfIpvsAlone: boolean;
  readonly walk: (packet: Packet, environment: Environment) => readonly ChainResult[];
}

/** Entries of Services whose packets the rules of another program translate, or let through, before kube-proxy's chains are asked. */
export function takenEntries({rulesets, nft}: RulesOfNode, traces: readonly PortTrace[]): readonly TakenEntry[] {
  const all = [...[...rulesets.values()].flatMap(beforeIptables), ...(nft === null ? [] : beforeNft(nft))];
  if (all.length === 0) return [];
  return traces.flatMap(trace =>
    trace.entries.flatMap(one => {
      for (const before of all) {
        const taken = takenBy(before, trace, one);
        if (taken !== null) return taken;
      }
      return [];
    }),
  );
}

function beforeIptables(shown: Ruleset): readonly Before[] {
  const rules = withGaps(shown, null);
  return (['PREROUTING', 'OUTPUT'] as const).flatMap(name => {
    const own = shown.chain('nat', name)?.rules() ?? [];
    const at = own.findIndex(({target}) => target?.name === 'KUBE-SERVICES');
    const first = at < 0 ? own : own.slice(0, at);
    if (first.length === 0) return [];
    const alone = listChain({table: 'nat', name, policy: null, complete: true}, first);
    return {
      family: shown.family,
      origin: name === 'OUTPUT' ? ('node' as const) : ('arriving' as const),
      isOfIpvsAlone: at < 0,
      walk: (packet: Packet, environment: Environment) => walkIptablesChain({rules, environment, limits: limitsFor(rules)}, alone, packet),
    };
  });
}

/** Base chains of other tables. Of those with the priority of kube-proxy the text shows no order. */
function beforeNft({tables}: NftRuleset): readonly Before[] {
  return [...tables.values()].flatMap(table =>
    table.name === 'kube-proxy'
      ? []
      : table.baseChains.flatMap(chain => {
          const {type, hook = '', priority = 0} = chain.base ?? {};
          if (type !== 'nat' || priority >= destinationNat || !/^(?:prerouting|output)$/.test(hook)) return [];
          return {
            family: table.family === 'ip' ? ('IPv4' as const) : table.family === 'ip6' ? ('IPv6' as const) : null,
            origin: hook === 'output' ? ('node' as const) : ('arriving' as const),
            isOfIpvsAlone: false,
            walk: (packet: Packet, environment: Environment) => walkNftChain(table, chain, {packet, environment}),
          };
        }),
  );
}

/** The priority of what kube-proxy and iptables translate destinations with. */
const destinationNat = -100;

function takenBy(before: Before, trace: PortTrace, {entry, endpoints}: PortTrace['entries'][number]): TakenEntry | null {
  const isOfIpvs = trace.service.namespace === 'ipvs';
  const {family, port} = trace;
  const isForNode = entry.kind === 'nodePort';
  if ((before.family ?? family) !== family || (before.isOfIpvsAlone && !isOfIpvs) || entry.port === 0) return null;
  // The node itself is a usual client of cluster IPs alone.
  if (before.origin === 'node' && entry.kind !== 'clusterIP') return null;
  const own = family === 'IPv4' ? '0.0.0.0' : '::';
  const packet = packetOf(
    {family, protocol: port.protocol},
    {
      source: before.origin === 'node' ? own : sourceOf(trace, entry.kind),
      destination: isForNode ? own : (entry.address ?? ''),
      port: entry.port,
      // Clients outside come by no interface of pods or containers; which one it is, is not known of pods.
      from: {kind: before.origin === 'node' ? 'node' : 'other', interface: isForNode ? 'uplink' : null},
    },
  );
  if (packet === null) return null;
  const isLocal = ({text}: Address): boolean | null =>
    text === own || (text === packet.destination.text ? isOfIpvs || (entry.kind === 'clusterIP' ? false : null) : null);
  const ends = before
    .walk(packet, {...unknown, isLocal, redirectAddress: () => parseAddress(own)})
    .filter(({supposed}) => supposed === null);
  const [end] = ends;
  const reached = new Set(endpoints.map(({hostPort}) => hostPort));
  const isTaken = ({verdict, packet: {rewritten, destination, port: to}}: ChainResult): boolean =>
    verdict === 'accept' && !(rewritten && reached.has(joinHostPort(destination.text, to)));
  const path = end === undefined ? [] : pathRules(end.path);
  const rule = path.at(-1);
  if (end === undefined || rule === undefined || !ends.every(isTaken)) return null;
  const to =
    end.packet.destination.text === own
      ? `port ${end.packet.port} of the node itself`
      : joinHostPort(end.packet.destination.text, end.packet.port);
  return {
    trace,
    entry,
    at: isForNode ? `node port ${entry.port}` : joinHostPort(packet.destination.text, entry.port),
    effect: end.packet.rewritten ? `are sent to ${to}` : 'are translated to no endpoint',
    sources: path.flatMap(({text}) => / (?:-s|ip6? saddr) (\S+)/.exec(` ${text}`)?.[1] ?? []),
    rule,
  };
}

/** A pod, or a client outside. */
function sourceOf({family, entries}: PortTrace, kind: string): string {
  const outside = family === 'IPv4' ? '203.0.113.9' : '2001:db8::9';
  const [end] = entries.flatMap(({endpoints}) => endpoints.map(({hostPort}) => parseAddress(hostPort.replace(/^\[|\]?:\d+$/g, ''))));
  return kind === 'clusterIP' ? (end?.text ?? outside) : outside;
}

const unknown: Pick<Environment, 'canBeInterface' | 'inSet' | 'knownTo'> = {
  canBeInterface: () => null,
  inSet: () => null,
  knownTo: new Set(),
};
