import {createKubeApi} from '../collect/kube/create-kube-api.ts';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import {loadConnection} from '../collect/kube/load-connection.ts';
import {parseTimeout, type ConnectionFlags} from '../collect/kube/kubeconfig.ts';
import {type AgentPlace, defaultAgentPlace} from '../collect/agents/agent-tokens.ts';
import {wrongUse} from './wrong-use.ts';

/** A connection to a cluster. Disposing of it closes the connections. */
export interface OpenCluster extends Disposable {
  readonly api: KubeApi;
  /** The context and the server, as text for people. */
  readonly description: string;
  /** The default namespace: of `-n`, else of the context, else `default`. */
  readonly namespace: string;
}

/**
 * The API server that kubectl would use with these flags; sends no request yet. Throws a KubeconfigError or a CLIError, which both mean
 * wrong use.
 */
export function openCluster(flags: ConnectionFlags, userAgent = 'svc-trace'): OpenCluster {
  const text = flags['request-timeout'] ?? '0';
  const requestTimeout = parseTimeout(text);
  if (requestTimeout === null) throw wrongUse(`--request-timeout: "${text}" is not a duration; write 30s, 1m or 0`);
  const connection = loadConnection(flags);
  const api = createKubeApi(connection, {requestTimeout, userAgent});
  return {api, description: connection.description, namespace: connection.namespace, [Symbol.dispose]: () => api.close()};
}

/** The parsed values of `agentsFlags`. */
export interface ParsedAgentsFlags {
  readonly agents?: boolean;
  readonly 'agents-namespace'?: string;
  readonly 'agents-selector'?: string;
  readonly 'agents-token-file'?: string | undefined;
}

export function agentPlace(flags: ParsedAgentsFlags): AgentPlace {
  const {namespace, selector} = defaultAgentPlace;
  return {namespace: flags['agents-namespace'] ?? namespace, selector: flags['agents-selector'] ?? selector};
}
