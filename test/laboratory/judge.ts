import {diagnose} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {families, parseAddress, joinHostPort} from '../../src/model/address.ts';
import {namespacedName} from '../../src/model/text.ts';
import {endpointsOf, failures, type Flow, type Seen} from './laboratory.ts';
import {identity} from '../mutants/laboratory.ts';
import {inFamily} from './in-family.ts';
import type {Scenario} from './steps.ts';

/** What a scenario did to a flow. */
type Change = 'lost' | 'source' | 'masquerade' | 'endpoints' | 'gained';

/** How the program's answer compares with the kernel. */
export interface Judgement {
  readonly changes: readonly {readonly flow: Flow; readonly change: Change}[];
  /** The findings that the healthy node does not have. */
  readonly findings: readonly Finding[];
  /** In what `check` is wrong: false alarms, silence, rules that are not named, and words that are not true. */
  readonly check: readonly string[];
  /** In what `packet` is wrong. */
  readonly packet: readonly string[];
}

/** The healthy node: what was seen, and the findings of it. */
export interface Healthy {
  readonly flows: readonly Flow[];
  readonly seen: ReadonlyMap<Flow, Seen>;
  readonly findings: readonly Finding[];
}

/** What is to be judged. */
export interface Case {
  readonly scenario: Scenario;
  readonly seen: ReadonlyMap<Flow, Seen>;
  readonly snapshot: Snapshot;
  /** The lines of rules that the scenario loaded, as the node prints them. */
  readonly added: readonly string[];
}

export function findingsOf(snapshot: Snapshot): readonly Finding[] {
  return diagnose(snapshot, {toolVersion: '0.0.0'}).findings;
}

export function judge(healthy: Healthy, {scenario, seen, snapshot, added}: Case): Judgement {
  const known = new Set(healthy.findings.map(identity));
  const findings = findingsOf(snapshot).filter(finding => !known.has(identity(finding)));
  const changes = healthy.flows.flatMap(flow => {
    const change = changeOf(healthy.seen.get(flow) ?? {}, seen.get(flow) ?? {}, flow.source);
    return change === null ? [] : [{flow, change}];
  });
  // Another address of a node is no loss.
  const isSourceLost = ({flow, change}: (typeof changes)[number]): boolean =>
    change === 'source' && flow.isLocalPolicy && !flow.sender.startsWith('node-');
  const harmful = changes.filter(found => found.change === 'lost' || isSourceLost(found));
  const alarms = findings.filter(({severity}) => severity === 'error');
  const loud = findings.filter(({severity, code}) => (scenario.isPurpose === true || severity !== 'info') && /^ST[2-6]/.test(code));
  const unaffected = findings.filter(finding => /no traffic is affected/.test(finding.message) && quotes(finding, added));
  return {
    changes,
    findings,
    check: [
      ...(changes.length > 0 ? [] : alarms.map(({code, message}) => `false alarm: ${code} ${message}`)),
      ...(harmful.length > 0 && loud.length === 0 ? [`silence: ${changesText(harmful)}`] : []),
      ...(harmful.length > 0 && loud.length > 0 && !loud.some(finding => quotes(finding, added) || isOfKernel(finding, scenario))
        ? [`not quoted: ${changesText(harmful)}; ${loud.map(({code, message}) => `${code} ${message}`).join('; ')}`]
        : []),
      ...(findings.some(saysItIsTruncated) ? [] : unnamed(harmful, loud)),
      ...(scenario.isDecided === true ? findings.filter(isDoubt).map(({code, message}) => `in doubt: ${code} ${message}`) : []),
      ...(changes.length > 0 ? unaffected.map(({code, message}) => `affects traffic: ${code} ${message}: ${changesText(changes)}`) : []),
    ],
    packet: healthy.flows.flatMap(flow => packetFaults(flow, seen.get(flow) ?? {}, snapshot)),
  };
}

/** The report says itself that not all senders were walked. */
function saysItIsTruncated({code, message}: Finding): boolean {
  return code === 'ST403' && / classes of them were walked: /.test(message);
}

/** Services that lose connections, where each loud finding names the Services that it is about and none names these. */
function unnamed(harmful: Judgement['changes'], loud: readonly Finding[]): readonly string[] {
  if (loud.length === 0 || loud.some(({service, affects}) => service === undefined && affects === undefined)) return [];
  const named = new Set(
    loud.flatMap(({service, affects = []}) => [...(service === undefined ? [] : [service]), ...affects]).map(namespacedName),
  );
  const missing = harmful.filter(({flow}) => !named.has(flow.service));
  return missing.length === 0
    ? []
    : [`not named: ${[...new Set(missing.map(({flow}) => `${flow.service} from ${flow.sender}`))].join(', ')}`];
}

/** What a flow's connections became is another than before. */
function changeOf(before: Seen, after: Seen, own: string): Change | null {
  const [was, is] = [failures(before), failures(after)];
  if (was < is) return 'lost';
  if (was > is) return 'gained';
  const [old, now] = [endpointsOf(before), endpointsOf(after)];
  const others = [...now].flatMap(([endpoint, source]) => (old.get(endpoint) === source ? [] : (old.get(endpoint) ?? [])));
  // The node may masquerade with another address of its own.
  if (others.length > 0) return others.some(source => source === parseAddress(own)?.text) ? 'source' : 'masquerade';
  return now.size === old.size && [...now.keys()].every(endpoint => old.has(endpoint)) ? null : 'endpoints';
}

/** Who answers, by endpoint: its name, or that of the node whose network it is in. */
const podOf = new Map(
  families.flatMap(family =>
    Object.entries({
      ...{'10.244.11.4': 'pod4', '10.244.11.5': 'pod5', '10.244.12.4': 'far-pod'},
      ...{'172.18.0.11': 'node-a', '172.18.0.12': 'node-b'},
    }).map(([address, name]) => [joinHostPort(parseAddress(inFamily(family, address))?.text ?? '', 8080), name] as const),
  ),
);

/** An end that `packet` says a connection has, and the endpoint that serves it. */
interface Said {
  readonly text: string;
  readonly endpoint: string | null;
  readonly isUndecided: boolean;
  readonly probability: number;
}

/** In what the answer of `packet` is none that the kernel gave. An undecided one is never wrong. */
function packetFaults({sender, source, destination, port, node}: Flow, seen: Seen, snapshot: Snapshot): readonly string[] {
  const all = saidOf(snapshot, {node, source, destination, port});
  if (all.some(({isUndecided}) => isUndecided)) return [];
  const served = new Set(all.flatMap(({endpoint}) => endpoint ?? []));
  const mayFail = all.some(({endpoint}) => endpoint === null);
  const said = `packet ${sender} ${source} → ${destination}:${port} on ${node}: ${[...new Set(all.map(({text}) => text))].join(', ')}, and the kernel`;
  const missing = [...endpointsOf(seen).keys()].filter(pod => !served.has(pod));
  if (missing.length > 0) return [`${said} reached ${missing.join(', ')}`];
  if (failures(seen) > 0 && !mayFail) return [`${said} lost ${failures(seen)}`];
  // What fails rarely may not do so in a few attempts.
  const failing = all.reduce((sum, {endpoint, probability}) => (endpoint === null ? sum + probability : sum), 0);
  return failures(seen) === 0 && failing > 0.4 ? [`${said} lost none`] : [];
}

/** What `packet` says. */
function saidOf(snapshot: Snapshot, asked: Pick<Flow, 'node' | 'source' | 'destination' | 'port'>): readonly Said[] {
  const {node, source, destination, port} = asked;
  const answers = askNodes({source, destination, port: String(port), protocol: 'tcp'}, snapshot, name => name === node);
  return answers
    .flatMap(({outcomes}) => outcomes)
    .filter(({probability}) => probability > 0)
    .map(({verdict, destination: to, onward, probability}) => {
      const end = to ?? joinHostPort(destination, port);
      return {
        text: `${verdict} ${end} on ${onward?.node ?? node}`,
        endpoint: verdict === 'accept' ? (podOf.get(end) ?? null) : null,
        ...{isUndecided: verdict === 'undecided', probability},
      };
    });
}

/** A finding shows a rule of the scenario, or names its chain or policy. */
function quotes(finding: Finding, added: readonly string[]): boolean {
  const text = JSON.stringify(finding)
    .replaceAll('\\"', '"')
    .replaceAll(/ in iptables-(?:nft|legacy) is /g, ' is ');
  return added.some(line => text.includes(line));
}

function isDoubt({severity, message}: Finding): boolean {
  return severity !== 'info' && message.includes('undetermined');
}

/** What the kernel does beside rules has no rule to show. */
function isOfKernel({code}: Finding, {load}: Scenario): boolean {
  return code.startsWith('ST6') && load.some(({tool}) => tool === 'sh');
}

export function changesText(changes: Judgement['changes']): string {
  const groups = Map.groupBy(changes, ({flow, change}) => `${change} ${flow.sender}`);
  return [...groups].map(([about, {length}]) => `${about} ${length}`).join(', ');
}
