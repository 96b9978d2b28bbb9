import type {PodObject} from '../../model/api-objects.ts';
import {ApiError, type KubeApi} from '../kube/kube-api.ts';
import {agentPort} from './agent-pods.ts';
import {type AgentAnswer, readResult} from './read-result.ts';
import {errorText} from '../../model/text/error-text.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

/** The result of asking an agent. */
export type AgentReply =
  | {readonly kind: 'answer'; readonly answer: AgentAnswer}
  | {readonly kind: 'none'; readonly reason: string; readonly remedy: string};

/** Requests an agent's result through the API server's proxy to its pod. Rejects only if the API server does not accept the credentials. */
export async function askAgent(api: KubeApi, pod: PodObject, signal: AbortSignal): Promise<AgentReply> {
  const {namespace = '', name} = pod.metadata;
  const agent = namespacedName({namespace, name});
  const phase = pod.status?.phase ?? 'unknown';
  if (phase !== 'Running') return none(`its agent ${agent} is ${phase}`, readPod(namespace, name));
  const proxy = `http:${name}:${agentPort(pod)}`;
  try {
    const value = await api.get<unknown>(`/api/v1/namespaces/${namespace}/pods/${proxy}/proxy/result`, {}, {signal, once: true, maxBytes});
    const read = readResult(value);
    if (typeof read === 'string')
      return none(`the answer of its agent ${agent} cannot be used: ${read}`, 'Run the same version of svc-trace as agent and here.');
    return {kind: 'answer', answer: read};
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) throw error;
    return whyNoAnswer(error, {agent, namespace, name, signal});
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
}

/** An agent answers with plain text why it has no result; the API server answers with a Status, which has a reason. */
function whyNoAnswer(error: ApiError, {agent, namespace, name, signal}: AskedAgent): AgentReply {
  const {status, reason, cause, message} = error;
  if (signal.aborted) return none(`its agent ${agent} did not answer: ${errorText(signal.reason)}`, readPod(namespace, name));
  if (status === 403)
    return none(message, `Get the right to get pods/proxy in ${namespace} ("kubectl svc-trace access --agents" prints the Role for it).`);
  if (status === 404 && reason !== '') return none(`its agent ${agent} is gone`, 'Try again: a new one may be there by now.');
  if (status === 503 && reason === '') return none(`its agent ${agent} says: ${lastPart(message)}`, readPod(namespace, name));
  if (status === 503)
    return none(
      `the API server does not reach its agent ${agent}: ${message}`,
      `${readPod(namespace, name)} A firewall between the API server and the node may be in the way.`,
    );
  if (cause instanceof SyntaxError) return none(`the answer of its agent ${agent} is no JSON`, readPod(namespace, name));
  return none(`its agent ${agent} gave no result: ${message}`, readPod(namespace, name));
}

function readPod(namespace: string, name: string): string {
  return `Look at it with: kubectl describe pod -n ${namespace} ${name}; kubectl logs -n ${namespace} ${name}.`;
}

/** The message of an answer, without the description of the request. */
function lastPart(message: string): string {
  return /answered \d+ [A-Za-z ]+: (.*?)\.?$/.exec(message)?.[1] ?? message;
}
