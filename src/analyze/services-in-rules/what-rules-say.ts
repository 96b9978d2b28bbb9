import {joinHostPort} from '../../model/address.ts';
import type {NftChain, NftRule, NftRuleset} from '../../model/nft-ruleset.ts';
import {entryText} from '../../model/service-port.ts';
import {uniqueBy} from '../../model/lists.ts';
import {type Chain, matchOptionOf, optionOf, type Rule, type Ruleset} from '../../model/ruleset.ts';
import {hiddenInterfaces} from '../../parse/iptables/iptables-list.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {plural, servicePortText, someOf} from '../../model/text.ts';

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
      ? 'refuses connections: the virtual server has no real server, or all have the weight 0'
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
  const [end = all.length] = chain.complete ? endsOf(all) : [];
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
  const isCut =
    !chain.complete && (rules.length < 2 || !rules.some(({target}) => target !== null && !/^(?:DROP|REJECT)$/.test(target.name)));
  if (isCut || !rules.every(isNarrow)) return [];
  const which = chain.complete ? 'rule of it' : 'rule of it that this text has';
  const others = [
    ...(chain.complete ? [] : ['another rule']),
    ...(rules.some(({target}) => target?.name.startsWith('ufw-') === true) ? ['a rule of ufw for what passes the node (ufw route)'] : []),
  ];
  const unless = others.length === 0 ? '' : `, unless ${others.join(' or ')} accepts them`;
  const what = end === all.length ? 'the policy of filter/FORWARD is DROP' : `"${all[end]?.text}" (table filter) stops all packets`;
  return `${what}, and no ${end === all.length ? which : 'rule before it'} accepts packets between pods of two nodes: only masqueraded ones pass, by KUBE-FORWARD${unless}`;
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
