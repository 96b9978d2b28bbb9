import {type Address, joinHostPort, parseAddress} from '../../model/address.ts';
import type {NftRuleset} from '../../model/nft-ruleset.ts';
import type {Ruleset, RuleText} from '../../model/ruleset.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {type ChainResult, limitsFor} from '../../trace/branch.ts';
import {walkIptablesChain} from '../../trace/iptables/walk-packet.ts';
import {walkNftChain} from '../../trace/nftables/walk-nft-packet.ts';
import {type Environment, type Packet, pathRules} from '../../trace/packet.ts';
import {listChain} from '../iptables/chain-texts.ts';
import {withGaps} from '../iptables/text-gaps.ts';
import {packetOf} from '../outcomes/probes.ts';
import type {RulesOfNode} from './services-in-rules.ts';

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
