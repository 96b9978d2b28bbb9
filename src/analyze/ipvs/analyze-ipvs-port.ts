import type {ServedPort} from '../../model/endpoint.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import type {Rule} from '../../model/ruleset.ts';
import {blindToWeight, realServerRule} from '../../trace/iptables/walk-packet.ts';
import {comparePathOutcomes} from '../outcomes/compare-outcomes.ts';
import {configuredAffinity} from '../symptoms/port-symptoms.ts';
import {SymptomList} from '../symptoms/symptom-list.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {ipvsProbes, memberEvidence, serverEvidence} from './ipvs-evidence.ts';
import type {IpvsPortDifferences, MemberDifference} from './ipvs-differences.ts';
import {serversOf} from './infer-ipvs-settings.ts';
import {IpvsSemantics, settingEvidence, type SemanticsInput} from './ipvs-semantics.ts';
import {pathOutcomeOn} from './base-rule-source.ts';

interface IpvsPortCase extends Omit<SemanticsInput, 'serverCount'> {
  readonly expected: ExpectedIpvs;
}

/** What the differences of one Service port do to packets. A difference that changes no outcome is reported as harmless. */
export function analyzeIpvsPort({item, differences, expected, sides, nodeName}: IpvsPortCase): readonly Symptom<Rule>[] {
  const symptoms = new SymptomList<Rule>(item.port);
  const serverCount = serversOf(expected, item).length;
  const semantics = new IpvsSemantics({item, differences, sides, serverCount, nodeName});
  comparePathOutcomes({
    item,
    semantics,
    symptoms,
    probes: ipvsProbes(item, expected.context, differences),
    walk: probe => ({
      probe,
      expected: pathOutcomeOn(sides.expected, probe.packet),
      actual: pathOutcomeOn(sides.actual, probe.packet),
    }),
  });
  // Packets that are rejected because of a missing element are masqueraded by the same element.
  if (symptoms.has('unexpected-reject')) symptoms.drop('masquerade-mismatch');
  analyzeSettings(item, differences, symptoms);
  analyzeHealthCheck(item, differences, symptoms);
  analyzeOwnPorts(differences, symptoms);
  sayRest(differences, symptoms);
  const {minor} = expected.context.version;
  return symptoms.all.map(symptom => (isDrained(symptom) ? {...symptom, remedy: addAgain(symptom, minor)} : symptom));
}

/** The endpoint is there with the weight 0. */
function isDrained({kind, actual}: Symptom<Rule>): boolean {
  return kind === 'missing-endpoint' && actual.some(({table, text}) => table === 'ipvs' && / -w 0$/.test(text));
}

/** kube-proxy corrects weights in its first sync alone, and before 1.26 never (kubernetes#108319). */
function addAgain({actual}: Symptom<Rule>, minor: number): string {
  const server = actual.map(({text}) => text.replace(/^-a (.*) -r (\S+) .*$/, '-d $1 -r $2')).find(text => text.startsWith('-d '));
  const restart =
    minor < 26
      ? 'A restart of kube-proxy before 1.26 keeps the weight 0 (kubernetes#108319).'
      : 'Or restart kube-proxy: it corrects weights only in its first sync.';
  return `Delete the real server on this node (ipvsadm ${server ?? '-d'}): kube-proxy adds it again, with its weight, in its next sync. ${restart}`;
}

/** The settings of virtual servers: the affinity timeout and the scheduler. */
function analyzeSettings({port}: ServedPort, {servers}: IpvsPortDifferences, symptoms: SymptomList<Rule>): void {
  for (const {expected, actual, persistence, scheduling} of servers) {
    const evidence = settingEvidence(expected, actual);
    if (persistence) {
      const netmask = actual.flags.find(flag => flag.startsWith('netmask '));
      const found =
        actual.persistence === null
          ? 'session affinity is missing'
          : `session affinity of ${actual.persistence} s${netmask === undefined ? '' : ` by ${netmask}`} is programmed`;
      symptoms.say({kind: 'session-affinity-mismatch', detail: `${found}: ${configuredAffinity(port)}`, ...evidence}, 'affinity');
    }
    if (scheduling) {
      const spelled = ({scheduler, flags}: typeof actual): string => [scheduler, ...flags].join(' ');
      const detail = `connections are scheduled by ${spelled(actual)}, and kube-proxy is set to ${spelled(expected)}`;
      symptoms.say({kind: 'uneven-balance', cause: 'scheduler', detail, ...evidence}, 'scheduler');
    }
    analyzeWeights(actual.scheduler, servers, symptoms);
  }
}

function analyzeWeights(scheduler: string, servers: IpvsPortDifferences['servers'], symptoms: SymptomList<Rule>): void {
  for (const {expected, actual, changed} of servers) {
    for (const pair of changed) {
      const evidence = {expected: [realServerRule(expected, pair.expected)], actual: [realServerRule(actual, pair.actual)]};
      if (pair.actual.upperThreshold > 0) {
        const detail = `${pair.actual.hostPort} gets no new connections above ${pair.actual.upperThreshold}: kube-proxy sets no such limit`;
        symptoms.say({kind: 'unexpected-rule', severity: 'warning', detail, ...evidence}, `limit ${pair.actual.hostPort}`);
      }
      const heeded = !blindToWeight.has(scheduler) || pair.actual.weight === 0;
      if (pair.actual.weight === pair.expected.weight || heeded) continue;
      const detail = `${pair.actual.hostPort} has weight ${pair.actual.weight}: the scheduler ${scheduler} ignores it, so no traffic is affected`;
      symptoms.say({kind: 'uneven-balance', severity: 'info', detail, ...evidence}, 'uneven');
    }
  }
}

function analyzeHealthCheck({port}: ServedPort, {members}: IpvsPortDifferences, symptoms: SymptomList<Rule>): void {
  const missing = members.filter(({role, kind}) => role === 'KUBE-HEALTH-CHECK-NODE-PORT' && kind === 'missing');
  if (missing.length === 0 || symptoms.has('service-not-programmed')) return;
  const detail = `the set that lets health checks on port ${port.healthCheckNodePort} through lacks the port: a load balancer may consider the node unhealthy`;
  symptoms.say({kind: 'health-check-port-blocked', detail, expected: evidenceOf(missing), actual: []});
}

/** Ports of the node itself must not be reachable at the addresses of Services. */
function analyzeOwnPorts({members, missingServers}: IpvsPortDifferences, symptoms: SymptomList<Rule>): void {
  const missing = members.filter(({role, kind}) => role === 'KUBE-IPVS-IPS' && kind === 'missing');
  if (missing.length === 0 || missingServers.length > 0 || symptoms.has('missing-entry')) return;
  const addresses = missing.map(({member}) => member).join(', ');
  const detail = `ports of the node itself can be reached at ${addresses}: the set that blocks them lacks the address`;
  symptoms.say({kind: 'missing-rule', severity: 'warning', detail, expected: evidenceOf(missing), actual: []}, 'own ports');
}

/** Differences that no symptom explains and that change no outcome. */
function sayRest({members, missingServers, servers}: IpvsPortDifferences, symptoms: SymptomList<Rule>): void {
  if (symptoms.all.length > 0) return;
  const harmless = 'no traffic is affected';
  const missing = members.filter(({kind}) => kind === 'missing');
  const extra = members.filter(({kind}) => kind === 'extra');
  const gone = [...missingServers.flatMap(({server}) => serverEvidence(server).slice(0, 1)), ...evidenceOf(missing)];
  const more = [...servers.flatMap(({actual, extra: reals}) => reals.map(real => realServerRule(actual, real))), ...evidenceOf(extra)];
  if (gone.length > 0)
    symptoms.say({
      kind: 'missing-rule',
      severity: 'info',
      detail: `${countOf(gone)} missing from ${placesOf(gone)}: ${harmless}`,
      expected: gone.slice(0, 6),
      actual: [],
    });
  if (more.length > 0)
    symptoms.say({
      kind: 'unexpected-rule',
      severity: 'info',
      detail: `${countOf(more)} that kube-proxy would not have written in ${placesOf(more)}: ${harmless}`,
      expected: [],
      actual: more.slice(0, 6),
    });
}

function evidenceOf(members: readonly MemberDifference[]): readonly Rule[] {
  return members.map(({set, member, line}) => memberEvidence(set, member, line));
}

function countOf(rules: readonly Rule[]): string {
  return rules.length === 1 ? 'a line' : `${rules.length} lines`;
}

function placesOf(rules: readonly Rule[]): string {
  return [...new Set(rules.map(({table, chain}) => (table === 'ipset' ? chain : table)))].slice(0, 3).join(', ');
}
