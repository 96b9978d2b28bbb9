import type {Target, WrittenBundles} from './written-bundles.ts';

/** What a program ended with. */
export interface Outcome {
  readonly exitCode: number;
  readonly stdout: string;
}

interface Finding {
  readonly code: string;
  readonly severity: string;
  readonly endpoint?: string;
}

interface Report {
  readonly summary: {
    readonly verdict: string;
    readonly nodesChecked: number;
    readonly nodesUnread: number;
    readonly services: number;
    readonly servicePorts: number;
  };
  readonly findings: readonly Finding[];
}

interface TraceReport extends Report {
  readonly traces: readonly {
    readonly node: string;
    readonly entries: readonly {readonly mark: string; readonly endpoints: readonly {readonly endpoint: string; readonly mark: string}[]}[];
  }[];
}

interface PacketReport {
  readonly outcomes: readonly {readonly verdict: string; readonly destination: string | null; readonly probability: number}[];
}

interface DiffReport {
  readonly rules: readonly {readonly came: readonly string[]; readonly went: readonly string[]}[];
  readonly findings: readonly {readonly kind: string; readonly finding: Finding}[];
}

/**
 * Throws unless the report says that all nodes were checked and are in sync. The figures of a check that skips its work, or that reports
 * faults of a healthy cluster, would mean nothing.
 */
export function assertClean(outcome: Outcome, nodes: number): void {
  const report = reportOf<Report>(outcome, 0);
  const serious = seriousOf(report.findings);
  assertNothing('check reports problems of the synthetic cluster', [
    ...notChecked(report, nodes),
    serious.length > 0 && `${serious.length} findings on a healthy cluster, such as ${JSON.stringify(serious.slice(0, 3), null, 2)}`,
  ]);
}

/** Throws unless a move to nftables mode changes nothing but node ports on loopback addresses. */
export function assertPreview({exitCode, stdout}: Outcome, nodes: number): void {
  const {summary, changes} = JSON.parse(stdout) as {
    summary: {nodesChecked: number};
    changes: readonly {docs: string; effect: string; node?: string}[];
  };
  const unexpected = changes.filter(
    ({node, effect, docs}) => node !== undefined && effect === 'lost' && !docs.endsWith('#localhost-node-ports'),
  );
  assertNothing('preview does not predict the move to nftables mode', [
    exitCode !== 0 && exitCode !== 1 && `exit code ${exitCode}`,
    summary.nodesChecked !== nodes && `${summary.nodesChecked} of ${nodes} nodes were checked`,
    unexpected.length > 0 && `${unexpected.length} changes, such as ${JSON.stringify(unexpected.slice(0, 2))}`,
  ]);
}

/** Throws unless each endpoint whose rule was removed is an error, and nothing else is. */
export function assertBroken(outcome: Outcome, {broken, nodes}: Pick<WrittenBundles, 'broken' | 'nodes'>): void {
  const report = reportOf<Report>(outcome, 1);
  assertNothing('check does not find the faults of the synthetic cluster', [
    ...notChecked(report, nodes.length),
    ...notBroken(seriousOf(report.findings), broken),
  ]);
}

/** Throws unless endpoints are missing and stale, and nothing else is wrong. */
export function assertStopped(outcome: Outcome, nodes: number): void {
  const report = reportOf<Report>(outcome, 1);
  const serious = seriousOf(report.findings);
  const other = serious.filter(({code}) => code !== 'ST202' && code !== 'ST203');
  const count = (wanted: string) => serious.filter(({code}) => code === wanted).length;
  assertNothing('check does not find the kube-proxy that stopped', [
    ...notChecked(report, nodes),
    count('ST202') === 0 && 'no endpoint is missing',
    count('ST203') === 0 && 'no endpoint is stale',
    other.length > 0 && `${other.length} other findings, such as ${JSON.stringify(other[0], null, 2)}`,
  ]);
}

/** Throws unless every node has a path to every endpoint of the Service. */
export function assertTrace(outcome: Outcome, {target, nodes}: Pick<WrittenBundles, 'target' | 'nodes'>): void {
  const report = reportOf<TraceReport>(outcome, 0);
  const traced = new Set(report.traces.map(({node}) => node));
  const paths = report.traces.flatMap(({entries}) => entries);
  assertNothing('trace does not find the Service in sync', [
    ...notChecked(report, nodes.length),
    traced.size !== nodes.length && `${traced.size} of ${nodes.length} nodes were traced`,
    paths.some(({mark, endpoints}) => mark !== 'ok' || endpoints.some(endpoint => endpoint.mark !== 'ok')) && 'not all paths are ok',
    paths.some(({endpoints}) => !same(endpoints.map(({endpoint}) => endpoint).sort(), target.endpoints)) && 'other endpoints',
  ]);
}

/** Throws unless the packet reaches each endpoint of the Service, with the same probability. */
export function assertPacket(outcome: Outcome, {endpoints}: Target): void {
  const {outcomes} = reportOf<PacketReport>(outcome, 0);
  const expected = 1 / endpoints.length;
  assertNothing('packet has another outcome', [
    !same(outcomes.map(({destination}) => destination ?? '').sort(), endpoints) && 'other endpoints',
    outcomes.some(({verdict, probability}) => verdict !== 'accept' || Math.abs(probability / expected - 1) > 1e-3) && 'other probabilities',
  ]);
}

/** Throws unless exactly the removed rules are shown as removed, and each is a new error. */
export function assertDiff(outcome: Outcome, broken: readonly string[]): void {
  const {rules, findings} = reportOf<DiffReport>(outcome, 1);
  const went = rules.flatMap(change => change.went).map(rule => rule.split(' ').at(-1) ?? '');
  assertNothing('diff does not show what changed', [
    !same(went.sort(), broken) && `${went.length} rules were removed, and not ${broken.length}`,
    rules.some(({came}) => came.length > 0) && 'rules were added',
    findings.some(({kind}) => kind !== 'came') && 'findings were resolved',
    ...notBroken(
      findings.map(({finding}) => finding),
      broken,
    ),
  ]);
}

function reportOf<T>({exitCode, stdout}: Outcome, expected: number): T {
  if (exitCode !== expected) throw new Error(`the exit code is ${exitCode}, not ${expected}:\n${beginning(stdout)}`);
  return JSON.parse(stdout) as T;
}

/** ST1xx are about the API objects: some Services of the cluster have no endpoints, on purpose. An info is no fault. */
function seriousOf(findings: readonly Finding[]): readonly Finding[] {
  return findings.filter(({code, severity}) => severity !== 'info' && !code.startsWith('ST1'));
}

type Reason = string | false;

function notChecked({summary}: Report, nodes: number): readonly Reason[] {
  return [
    // An info alone makes the verdict "findings", and is no fault.
    !['ok', 'findings'].includes(summary.verdict) && `the verdict is ${summary.verdict}`,
    summary.nodesChecked !== nodes && `${summary.nodesChecked} of ${nodes} nodes were checked`,
    summary.nodesUnread !== 0 && `${summary.nodesUnread} nodes were not read`,
    (summary.services === 0 || summary.servicePorts === 0) && 'no Service was checked',
  ];
}

function notBroken(findings: readonly Finding[], broken: readonly string[]): readonly Reason[] {
  const other = findings.filter(({code, severity}) => code !== 'ST202' || severity !== 'error');
  const found = new Set(findings.map(({endpoint}) => endpoint ?? ''));
  return [
    !same([...found].sort(), broken) && `${found.size} endpoints get no traffic, and not ${broken.length}`,
    other.length > 0 && `${other.length} other findings, such as ${JSON.stringify(other[0], null, 2)}`,
  ];
}

function same(actual: readonly string[], expected: readonly string[]): boolean {
  return actual.join() === expected.join();
}

function assertNothing(what: string, reasons: readonly Reason[]): void {
  const wrong = reasons.filter(reason => reason !== false);
  if (wrong.length > 0) throw new Error(`${what}: ${wrong.join('; ')}`);
}

function beginning(text: string): string {
  return text.length > 2_000 ? `${text.slice(0, 2_000)}…` : text;
}
