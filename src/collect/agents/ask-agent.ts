import type {PodObject} from '../../model/api-objects.ts';
import {ApiError, type KubeApi} from '../kube/kube-api.ts';
import {agentRealm, agentTokenHeader} from './agent-place.ts';
import {type AgentPort, agentPort} from './agent-pods.ts';
import type {AgentToken, AgentTokens} from './agent-tokens.ts';
import {type AgentAnswer, readResult} from './read-result.ts';
import {errorText} from '../../model/text/error-text.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

/** The result of asking an agent. */
export type AgentReply =
  | {readonly kind: 'answer'; readonly answer: AgentAnswer}
  | {readonly kind: 'none'; readonly reason: string; readonly remedy: string};

interface AskingAgents {
  readonly api: KubeApi;
  readonly tokens: AgentTokens;
  readonly signal: AbortSignal;
}

/** Requests an agent's result through the API server's proxy to its pod. Rejects only if the API server does not accept the credentials. */
export async function askAgent(pod: PodObject, {api, tokens, signal}: AskingAgents): Promise<AgentReply> {
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
    const headers = token === null ? {} : {[agentTokenHeader]: `Bearer ${token.token}`};
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
    if (error.status === 401) throw error;
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
  return `Look at it with: kubectl describe pod -n ${namespace} ${name}; kubectl logs -n ${namespace} ${name}.`;
}

/** The message of an answer, without the description of the request. */
function lastPart(message: string): string {
  return /answered \d+ [A-Za-z ]+: (.*?)\.?$/.exec(message)?.[1] ?? message;
}
