import {Diagnosis} from '../../diagnosis/diagnosis.ts';
import type {DiagnoseOptions} from '../../diagnosis/diagnose-node.ts';
import {ClusterView} from '../../expect/cluster/cluster-view.ts';
import {families, type Family} from '../../model/address.ts';
import {iptablesFiles, type NodeDump, type Snapshot} from '../../model/snapshot.ts';
import type {BundleDiff} from '../../model/findings/bundle-diff.ts';
import type {TrafficReport} from '../../model/traffic/traffic-report.ts';
import {ConntrackCounter, type ConntrackCounts} from '../../parse/conntrack.ts';
import {NatCounterReader, type NatCounters} from '../../parse/iptables/nat-counters.ts';
import {hasCounters} from '../../parse/iptables/rule-counters.ts';
import {parseIpvsadmStats} from '../../parse/ipvs/ipvsadm-stats.ts';
import {type NodeSample, wantedChains, wantedConnections} from '../../traffic/measure-port.ts';
import {type NodeSurvey, surveyNode, unreadSurvey} from '../../traffic/node-survey.ts';
import {type NodeRead, trafficReport} from '../../traffic/measure-traffic.ts';

/** The totals of one bundle, or the difference between two of the same cluster, the older one first. */
export function topOfBundles(
  bundles: {readonly before: Snapshot | null; readonly after: Snapshot},
  options: DiagnoseOptions,
): TrafficReport {
  const {before, after} = bundles;
  const {api} = after;
  const {services} = new Diagnosis(api, options);
  const surroundings = {api, view: new ClusterView(api), services, options: {...options, trace: true}};
  const read = (node: NodeDump): NodeRead => {
    const survey = surveyNode(node, surroundings);
    const old = before?.nodes.find(({name}) => name === node.name);
    const first = old === undefined ? null : sampleOf(old, survey, before?.takenAt);
    return {survey, before: first, after: sampleOf(node, survey, after.takenAt)};
  };
  const wanted = (name: string): boolean => options.nodes?.(name) ?? true;
  const unread = (after.unread ?? []).map(({name, reason}): NodeRead => ({survey: unreadSurvey(name, reason), before: null, after: null}));
  const reads = [...after.nodes.filter(({name}) => wanted(name)).map(read), ...unread.filter(({survey}) => wanted(survey.name))];
  return trafficReport(reads, {toolVersion: options.toolVersion, isRate: before !== null});
}

/** What `diff` reports about the connections between two bundles: nothing where neither of them has counters. */
export function connectionsBetween(
  before: Snapshot,
  after: Snapshot,
  options: DiagnoseOptions,
): Pick<BundleDiff, 'connections' | 'notCompared'> {
  const counted = [before, after].filter(({nodes}) => nodes.some(hasNodeCounters));
  if (counted.length === 0) return {notCompared: []};
  if (counted.length === 1) return {notCompared: ['connections: one of the bundles has no counters (capture --counters)']};
  const {interval, ports, nodes} = topOfBundles({before, after}, options);
  const notCompared = nodes.flatMap(({name, reason}) => (reason === undefined ? [] : [`connections on ${name}: ${reason}`]));
  return ports.every(({totals}) => totals.newPerSecond === null) ? {notCompared} : {connections: {interval, ports, nodes}, notCompared};
}

/** In nftables mode nothing counts: conntrack tells new connections only between reads that follow each other at once. */
function hasNodeCounters(node: NodeDump): boolean {
  return node.files.includes('ipvsadm-stats') || families.some(family => dumpsOf(node, family).some(hasCounters));
}

/** The node's counters in a bundle. */
function sampleOf(node: NodeDump, survey: NodeSurvey, takenAt: string | undefined): NodeSample {
  const connections = countConnections(node, survey);
  const ipvs = ['ipvsadm-stats', 'ipvsadm-list'].flatMap(file => {
    const text = node.read(file)?.toString('utf8');
    return text === undefined ? [] : [parseIpvsadmStats(text)];
  });
  const how = 'write it with: capture --counters';
  const conntrack = `the bundle holds no TCP connections; ${how}`;
  return {
    at: timeOf(node) ?? Date.parse(takenAt ?? ''),
    nat: new Map(families.flatMap(family => natOf(node, survey, family))),
    connections,
    ipvs,
    missing: {counters: `the bundle holds no counters; ${how}`, conntrack, ipvs: `the bundle holds no IPVS statistics; ${how}`},
  };
}

function natOf(node: NodeDump, survey: NodeSurvey, family: Family): readonly (readonly [Family, NatCounters])[] {
  const dumps = dumpsOf(node, family);
  const dump = dumps.find(content => content.includes('KUBE-SEP-')) ?? dumps[0];
  if (dump === undefined) return [];
  const reader = new NatCounterReader(wantedChains(survey, family));
  reader.add(dump);
  return [[family, reader.result()]];
}

function countConnections(node: NodeDump, survey: NodeSurvey): ConntrackCounts | null {
  const content = node.read('conntrack');
  // A capture without `--counters` contains UDP connections only.
  if (content === null || !/(?:^|\s)tcp\s+6\s/.test(content.toString('latin1', 0, 1 << 22))) return null;
  const counter = new ConntrackCounter(wantedConnections(survey));
  counter.add(content);
  return counter.result();
}

function dumpsOf(node: NodeDump, family: Family): readonly Buffer[] {
  return iptablesFiles(family).flatMap(file => node.read(file) ?? []);
}

/** When the rules were printed, by the node's own clock, to the second; null if the dump has no time. */
function timeOf(node: NodeDump): number | null {
  const head = node.read('iptables-save')?.toString('latin1', 0, 200) ?? '';
  const date = /^# Generated by ip6?tables-save v\S+(?: \([^)]*\))? on (.+)$/m.exec(head)?.[1];
  const time = Date.parse(`${date} UTC`);
  return Number.isNaN(time) ? null : time;
}
