import {type NodeSample, wantedChains, wantedConnections} from '../../src/traffic/measure-port.ts';
import type {NodeSurvey, SurveyedPort} from '../../src/traffic/node-survey.ts';
import {ConntrackCounter} from '../../src/parse/conntrack.ts';
import {NatCounterReader} from '../../src/parse/iptables/nat-counters.ts';
import {parseIpvsadmStats} from '../../src/parse/ipvs/ipvsadm-stats.ts';
import type {PortEntry} from '../../src/expect/cluster/cluster-view.ts';

interface GivenSurvey extends Partial<NodeSurvey> {
  /** What kube-proxy should give; as the rules if left out. */
  readonly due?: Readonly<Record<string, number>>;
}

/** A node with one Service port, whose rules give these shares. */
export function surveyOf(entry: PortEntry, shares: Readonly<Record<string, number>>, {due, ...given}: GivenSurvey = {}): NodeSurvey {
  const byHostPort = new Map(Object.entries(shares).map(([address, share]) => [`${address}:8080`, share]));
  const port: SurveyedPort = {
    ...{...entry, key: 'web', isRandom: entry.port.affinitySeconds === null},
    ...{
      shares: byHostPort,
      due: due === undefined ? byHostPort : new Map(Object.entries(due).map(([address, share]) => [`${address}:8080`, share])),
    },
  };
  return {name: 'k1', status: 'checked', mode: 'iptables', addresses: ['172.18.0.11'], ports: [port], ...given};
}

export interface GivenSample {
  /** In seconds. */
  readonly at: number;
  /** `iptables-save -c`. */
  readonly nat?: string;
  /** `conntrack -L`. */
  readonly conntrack?: string;
  /** `ipvsadm -Ln --stats --exact` and `ipvsadm -Ln`. */
  readonly ipvs?: readonly string[];
  readonly missing?: NodeSample['missing'];
}

export function sampleOf(survey: NodeSurvey, {at, nat, conntrack, ipvs = [], missing = {}}: GivenSample): NodeSample {
  const reader = new NatCounterReader(wantedChains(survey, 'IPv4'));
  if (nat !== undefined) reader.add(Buffer.from(nat));
  const counter = new ConntrackCounter(wantedConnections(survey));
  if (conntrack !== undefined) counter.add(Buffer.from(conntrack));
  return {
    ...{at: at * 1000, missing, ipvs: ipvs.map(parseIpvsadmStats)},
    nat: new Map(nat === undefined ? [] : [['IPv4', reader.result()]]),
    connections: conntrack === undefined ? null : counter.result(),
  };
}

/** The table nat of a node that was given these connections so far, by the last part of an endpoint's address. */
export function natTable(endpoints: Readonly<Record<string, number>>, {base = 1000, other = 500} = {}): string {
  const names = Object.keys(endpoints);
  const rules = names.flatMap(name => [
    `[${endpoints[name]}:60] -A KUBE-SEP-${name} -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.1.${name}:8080`,
    `[${endpoints[name]}:60] -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.1.${name}:8080" -j KUBE-SEP-${name}`,
  ]);
  return [
    ...['*nat', `[${base}:60] -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN`],
    `[${other}:60] -A KUBE-SEP-OTHER -p udp -m comment --comment "kube-system/kube-dns:dns" -m udp -j DNAT --to-destination 10.244.9.9:53`,
    ...rules,
    'COMMIT\n',
  ].join('\n');
}

export function tracked(sport: number, to: string, state = 'ESTABLISHED'): string {
  return `tcp      6 431999 ${state} src=10.244.13.7 dst=10.96.1.1 sport=${sport} dport=80 src=10.244.1.${to} dst=10.244.13.7 sport=8080 dport=${sport} [ASSURED] mark=0 use=1 id=${sport}\n`;
}
