import {pathTree} from '../../model/path-tree.ts';
import type {PodObject} from '../../model/api-objects.ts';
import {checks} from '../../checks/all-checks.ts';
import {type Finding, severities} from '../../model/finding.ts';
import {type AgentResult, nodeResultVersion} from '../../model/node-result.ts';
import type {ProxyVersion} from '../../model/proxy-config.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {errorText, namespacedName, shellWord} from '../../model/text.ts';
import {type AgentPort, agentPort} from '../cluster/read-agent-pods.ts';
import {ApiError, type KubeApi} from '../kube/kube-api.ts';
import {type Shape, whyMalformed} from '../objects/api-shapes.ts';
import {agentRealm, type AgentToken, agentTokenHeader, type AgentTokens} from './agent-tokens.ts';

/** The result of asking an agent. */
export type AgentReply =
  | {readonly kind: 'answer'; readonly answer: AgentAnswer}
  | {readonly kind: 'none'; readonly reason: string; readonly remedy: string};

/** Requests an agent's result through the API server's proxy to its pod. A 401 may be the agent's as well as the API server's: it is this node's alone. */
export async function askAgent(
  pod: PodObject,
  {api, tokens, signal}: {readonly api: KubeApi; readonly tokens: AgentTokens; readonly signal: AbortSignal},
): Promise<AgentReply> {
  const {namespace = '', name} = pod.metadata;
  const agent = namespacedName({namespace, name});
  const phase = pod.status?.phase ?? 'unknown';
  if (phase !== 'Running') return none(`its agent ${agent} is ${phase}`, readPod(namespace, name));
  const at = agentPort(pod);
  // No token is sent in plain text.
  const token = at.scheme === 'http' ? null : await tokens.current();
  if (token?.kind === 'none') return token;
  try {
    const path = `/api/v1/namespaces/${namespace}/pods/${at.scheme}:${name}:${at.port}/proxy/result`;
    const headers: Readonly<Record<string, string>> = token === null ? {} : {[agentTokenHeader]: `Bearer ${token.token}`};
    const value = await api.get<unknown>(path, {}, {signal, once: true, maxBytes, headers, realm: agentRealm});
    const read = readResult(value);
    if (typeof read === 'string')
      return none(`the answer of its agent ${agent} cannot be used: ${read}`, 'Run the same version of svc-trace as agent and here.');
    return {kind: 'answer', answer: read};
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.realm === agentRealm) {
      if (error.status === 401) tokens.forget();
      return whyRefused(error, {agent, token});
    }
    return whyNoAnswer(error, {agent, namespace, name, signal, at});
  }
}

/** One finding takes about a thousand bytes. */
const maxBytes = 64 * 1024 * 1024;

function none(reason: string, remedy: string): AgentReply {
  return {kind: 'none', reason, remedy};
}

interface AskedAgent {
  readonly agent: string;
  readonly namespace: string;
  readonly name: string;
  readonly signal: AbortSignal;
  readonly at: AgentPort;
}

function whyRefused({status, details}: ApiError, {agent, token}: {readonly agent: string; readonly token: AgentToken | null}): AgentReply {
  const {what, owner} = token?.kind === 'token' ? token : {what: 'a request without a token', owner: 'a request without a token'};
  if (status === 403)
    return none(
      `its agent ${agent} refuses: ${owner} may not get /result`,
      'Apply deploy/agents or deploy/components/gather of this version, or bind the ClusterRole of docs/rbac/agents-reader.yaml.',
    );
  return none(
    `its agent ${agent} does not accept ${what}: ${details}`,
    'Try again. If it fails again, check that the token is valid in this cluster.',
  );
}

/** An agent answers with plain text why it has no result; the API server answers with a Status, which has a reason. */
function whyNoAnswer(error: ApiError, {agent, namespace, name, signal, at}: AskedAgent): AgentReply {
  const {status, reason, cause, message} = error;
  if (signal.aborted) return none(`its agent ${agent} did not answer: ${errorText(signal.reason)}`, readPod(namespace, name));
  if (status === 403)
    return none(message, `Get the right to get pods/proxy in ${namespace} ("kubectl svc-trace access --agents" prints the Role for it).`);
  if (status === 404 && reason !== '') return none(`its agent ${agent} was deleted`, 'Try again: a new one may be running by now.');
  if (status === 429 && reason === '') return none(`its agent ${agent} says: ${error.details}`, 'Try again.');
  if (status === 503 && reason === '') return none(`its agent ${agent} says: ${lastPart(message)}`, readPod(namespace, name));
  const other = status === 503 ? otherProtocol(message, at) : null;
  if (other !== null) return none(`its agent ${agent} ${other.reason}`, other.remedy);
  if (status === 503)
    return none(
      `the API server does not reach its agent ${agent}: ${message}`,
      `${readPod(namespace, name)} A firewall between the API server and the node may be in the way.`,
    );
  if (cause instanceof SyntaxError) return none(`the answer of its agent ${agent} is no JSON`, readPod(namespace, name));
  return none(`its agent ${agent} gave no result: ${message}`, readPod(namespace, name));
}

/** Recognizes the errors of Go's HTTP client for a server with the other scheme. */
function otherProtocol(message: string, {scheme, port}: AgentPort): {readonly reason: string; readonly remedy: string} | null {
  if (scheme === 'https' && /server gave HTTP response to HTTPS client|first record does not look like a TLS handshake/.test(message))
    return {
      reason: `serves plain HTTP on port ${port}, which its pod does not name "http"`,
      remedy: 'Update the agent (deploy/agents). If it runs with --insecure-http, name its port "http".',
    };
  if (scheme === 'http' && /malformed HTTP response|: EOF\b/.test(message))
    return {
      reason: `serves HTTPS on port ${port}, which its pod names "http"`,
      remedy: 'Name the port "https" in its DaemonSet (deploy/agents).',
    };
  return null;
}

function readPod(namespace: string, name: string): string {
  return `Look at it with: kubectl describe pod -n ${shellWord(namespace)} ${shellWord(name)}; kubectl logs -n ${shellWord(namespace)} ${shellWord(name)}.`;
}

/** The message of an answer, without the description of the request. */
function lastPart(message: string): string {
  return /answered \d+ [A-Za-z ]+: (.*?)\.?$/.exec(message)?.[1] ?? message;
}

/** The answer of an agent. */
interface AgentAnswer {
  readonly result: AgentResult;
  /** When it answered, by its own clock, in milliseconds since 1970. */
  readonly now: number;
  /** Why its latest check failed; null if it succeeded. */
  readonly trouble: string | null;
}

/**
 * Reads the JSON of an agent's `/result`; a text says why it cannot be used. It is as untrusted as all data of a node.
 * @internal
 */
export function readResult(value: unknown): AgentAnswer | string {
  const version = (value as {readonly schemaVersion?: unknown} | null)?.schemaVersion;
  if (version === undefined) return 'it is no result of svc-trace agent';
  if (version !== nodeResultVersion)
    return `it is of version ${JSON.stringify(version)}, and this program reads version ${nodeResultVersion}: one of the two is older`;
  const wrong = whyMalformed(value, resultShape, '') ?? whyIncomplete(value as WrittenResult);
  return wrong ?? asAnswer(value as WrittenResult);
}

/** The form in which it is written: see `render/json.ts`. */
interface WrittenResult extends Omit<AgentResult, 'report' | 'judgedAt' | 'seen' | 'apiCurrentAt' | 'findings'> {
  readonly now: string;
  readonly trouble?: string;
  readonly judgedAt: string;
  readonly api: {readonly currentAt: string; readonly seen: AgentResult['seen']};
  readonly node: AgentResult['report'];
  readonly findings: readonly WrittenFinding[];
}

type WrittenRule = Pick<RuleText, 'table' | 'chain' | 'line'> & {readonly backend?: string; readonly rule: string};
type WrittenFinding = Omit<Finding, 'expected' | 'actual'> & {
  readonly expected?: readonly WrittenRule[];
  readonly actual?: readonly WrittenRule[];
};

const findingShape = pathTree<Shape>(
  ['string', 'code severity message variant gist pod node family endpoint since.{after before} service.{namespace name}'],
  ['string', 'port.{name protocol} entry.{kind address} affects[].{namespace name ports[]}'],
  ['string', 'senders.{text pods[] example.{family source destination protocol}}'],
  ['string', 'expected[].{table chain rule} actual[].{table chain rule}'],
  ['number', 'endpoints share port.port entry.port senders.example.port expected[].line actual[].line'],
);

const resultShape = pathTree<Shape>(
  ['string', 'tool.{name version} now judgedAt trouble api.{currentAt seen.{services endpointSlices}}'],
  ['number', 'seconds intervalSeconds node.{rules chains}'],
  [
    'string',
    'node.{name status reason proxyMode kubeProxyVersion backend via families[] settings.*.{value source} notRead[].{file reason}}',
  ],
  ['string', 'proxy.version.text'],
  ['number', 'proxy.version.{minor patch}'],
  ['boolean', 'proxy.{version.{isPreRelease guessed} gates.*}'],
  [findingShape, 'findings[]'],
  ['string', 'problems[].{node message remedy}'],
  ['boolean', 'problems[].isMinor'],
);

/** A missing field has no shape. */
function whyIncomplete({tool, api, node, findings, problems, now, judgedAt, intervalSeconds, seconds}: WrittenResult): string | null {
  const needed = {tool, api, node, findings, problems, now, judgedAt, intervalSeconds, seconds, 'api.seen': api?.seen};
  const missing = Object.entries(needed).find(([, value]) => value === undefined);
  if (missing !== undefined) return `it has no ${missing[0]}`;
  const times = {now, judgedAt, 'api.currentAt': api.currentAt};
  const invalid = Object.entries(times).find(([, text]) => Number.isNaN(Date.parse(text)));
  if (invalid !== undefined) return `its ${invalid[0]} is no time`;
  if (!['checked', 'unread', 'unsupported'].includes(node.status)) return 'its node.status is unknown';
  if (typeof node.name !== 'string' || !Array.isArray(node.families) || node.settings === undefined) return 'its node is not whole';
  if ([intervalSeconds, seconds].some(time => !(time >= 0 && time <= maxSeconds)))
    return 'it says that it checks its node less than once a day';
  const whole = findings.every(({code, severity, message}) => code && severities.includes(severity) && message);
  if (!whole) return 'it has a finding without code, severity or message';
  const unknown = findings.find(({code}) => !known.has(code));
  if (unknown !== undefined) return `it has a finding ${JSON.stringify(unknown.code)}, which this version does not know`;
  const ofOther = (what: string, of: string | undefined) =>
    `it has a ${what} about ${JSON.stringify(of ?? null)}, and is the agent of ${node.name}`;
  const finding = findings.find(one => one.node !== node.name);
  if (finding !== undefined) return ofOther('finding', finding.node);
  const problem = problems.find(one => one.node !== undefined && one.node !== node.name);
  return problem === undefined ? null : ofOther('problem', problem.node);
}

/** A day. */
const maxSeconds = 86_400;

const known = new Map(checks.map(check => [check.code as string, check]));

function asAnswer(written: WrittenResult): AgentAnswer {
  const {now, trouble, judgedAt, api, node, findings, proxy, tool, problems, seconds, intervalSeconds} = written;
  return {
    now: Date.parse(now),
    trouble: trouble ?? null,
    result: {
      tool,
      seconds,
      intervalSeconds,
      report: node,
      proxy: proxy === undefined || proxy === null ? null : asProxy(proxy),
      judgedAt: Date.parse(judgedAt),
      seen: api.seen,
      apiCurrentAt: Date.parse(api.currentAt),
      findings: findings.map(asFinding),
      problems: problems.map(problem => ({...problem, remedy: ofProblem})),
    },
  };
}

const ofProblem = 'See the log of its agent (kubectl logs), or check the node without --agents.';

/** While reading, a null patch became a missing field. */
function asProxy({version, gates}: ProxyVersion): ProxyVersion {
  return {version: {...version, patch: version.patch ?? null}, gates};
}

/** Only the fields that are read: an agent cannot mark a finding as known. What to do, and with which command, is never a node's word. */
function asFinding(written: WrittenFinding): Finding {
  const fields = Object.entries(written).filter(([name]) => Object.hasOwn(findingShape, name));
  const {entry, expected, actual, ...read} = Object.fromEntries(fields) as unknown as WrittenFinding;
  const texts = (written: readonly WrittenRule[]) =>
    written.map(({table, chain, line, backend, rule}): RuleText => {
      const place = {table, chain, line, text: rule};
      return backend === 'nft' || backend === 'legacy' ? {...place, backend} : place;
    });
  const {name = '', remedy = ''} = known.get(read.code) ?? {};
  return {
    ...read,
    name,
    remedy,
    // While reading, a null address became a missing field.
    entry: entry === undefined ? undefined : {...entry, address: entry.address ?? null},
    expected: expected === undefined ? undefined : texts(expected),
    actual: actual === undefined ? undefined : texts(actual),
  };
}
