import {readFile} from 'node:fs/promises';
import {errorText, namespacedName} from '../../model/text.ts';
import {ApiError, type KubeApi} from '../kube/kube-api.ts';

/** A token for agents, or the reason why there is none. */
export type AgentToken =
  /** `what` and `owner` are for messages: `the token in /run/token`, `the owner of the token in /run/token`. */
  | {readonly kind: 'token'; readonly token: string; readonly what: string; readonly owner: string}
  | {readonly kind: 'none'; readonly reason: string; readonly remedy: string};

interface AgentTokensOptions {
  readonly api: KubeApi;
  /** The namespace of the agents. */
  readonly namespace: string;
  /** `--agents-token-file`. */
  readonly file: string | undefined;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * Tokens for agents: from a file, otherwise of the pod that this runs in, otherwise requested for the ServiceAccount `svc-trace-reader`,
 * short-lived and for agents only. The user's own credentials are not sent to agents.
 */
export class AgentTokens {
  readonly #options: AgentTokensOptions;
  #requested: Promise<AgentToken> | null = null;
  /** In milliseconds since 1970. */
  #renewAt = 0;

  constructor(options: AgentTokensOptions) {
    this.#options = options;
  }

  /** Rejects only if the API server does not accept the credentials (401). */
  async current(): Promise<AgentToken> {
    const {api, file} = this.#options;
    if (file !== undefined) return fromFile(file);
    const own = await api.podToken();
    if (own === null) return this.#ofReader();
    return {kind: 'token', token: own, what: 'the token of this pod', owner: 'the ServiceAccount of this pod'};
  }

  /** An agent refused the token: the next call requests a new one. */
  forget(): void {
    this.#requested = null;
  }

  /** All agents get the same token, until 80% of its lifetime is over. */
  #ofReader(): Promise<AgentToken> {
    const {now} = this.#options;
    if (this.#requested !== null && now() < this.#renewAt) return this.#requested;
    this.#renewAt = now() + 0.8 * lifetime * 1000;
    this.#requested = this.#request();
    return this.#requested;
  }

  async #request(): Promise<AgentToken> {
    const {api, namespace, now} = this.#options;
    const owner = namespacedName({namespace, name: readerAccount});
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${readerAccount}/token`;
    const spec = {audiences: [agentAudience], expirationSeconds: lifetime};
    try {
      const request = {apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec};
      const {status} = await api.create<TokenRequest>(path, request, {signal: AbortSignal.timeout(patience), isReview: true});
      if (typeof status?.token === 'string')
        return {kind: 'token', token: status.token, what: `the token of ServiceAccount ${owner}`, owner: `ServiceAccount ${owner}`};
      throw new ApiError(`the API server gave no token for ${owner}`, {status: null});
    } catch (error) {
      // Not requested again for each of thousands of nodes, but soon.
      this.#renewAt = now() + 3000;
      if (!(error instanceof ApiError) || error.status === 401) throw error;
      return whyNone(error, owner, namespace);
    }
  }
}

interface TokenRequest {
  readonly status?: {readonly token?: unknown};
}

/** The shortest lifetime that the API server allows, in seconds. */
const lifetime = 600;

/** The time limit of a request, in milliseconds. */
const patience = 20_000;

function whyNone(error: ApiError, owner: string, namespace: string): AgentToken {
  if (error.status === 404) {
    const reason = `no token for its agent: ServiceAccount ${owner} not found`;
    return {kind: 'none', reason, remedy: 'Apply deploy/agents of this version, which contains it, or set --agents-token-file.'};
  }
  const remedy =
    error.status === 403
      ? `Get the right to create serviceaccounts/token of ${readerAccount} in ${namespace} ("kubectl svc-trace access --agents" prints the Role for it).`
      : 'Try again.';
  return {kind: 'none', reason: `no token for its agent: ${error.message}`, remedy};
}

async function fromFile(file: string): Promise<AgentToken> {
  try {
    const token = (await readFile(file, 'utf8')).trim();
    if (token !== '') return {kind: 'token', token, what: `the token in ${file}`, owner: `the owner of the token in ${file}`};
    return {kind: 'none', reason: `no token for its agent: ${file} is empty`, remedy: 'Say with --agents-token-file where a token is.'};
  } catch (error) {
    return {kind: 'none', reason: `no token for its agent: ${errorText(error)}`, remedy: 'Say with --agents-token-file where a token is.'};
  }
}

/** Where agents are found. */
export interface AgentPlace {
  readonly namespace: string;
  /** Labels of their pods. */
  readonly selector: string;
}

export const defaultAgentPlace: AgentPlace = {namespace: 'svc-trace', selector: 'app.kubernetes.io/name=svc-trace-agent'};

/** The realm of agents (WWW-Authenticate). It distinguishes their refusals from those of the API server. */
export const agentRealm = 'svc-trace-agent';

/** The audience of tokens that are valid for agents and not for the API server. */
export const agentAudience = 'svc-trace-agent';

/** The header for an agent's bearer token: the API server's proxy removes Authorization. */
export const agentTokenHeader = 'x-svc-trace-authorization';

/** The ServiceAccount, in the agents' namespace, whose tokens are requested outside of the cluster. */
export const readerAccount = 'svc-trace-reader';

/** The default port of an agent. */
export const defaultAgentPort = 10_270;
