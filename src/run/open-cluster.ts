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
export function openCluster(flags: ParsedConnectionFlags, userAgent = 'svc-trace'): OpenCluster {
  const text = flags['request-timeout'] ?? '0';
  const requestTimeout = parseTimeout(text);
  if (requestTimeout === null) throw wrongUse(`--request-timeout: "${text}" is not a duration; write 30s, 1m or 0`);
  const connection = loadConnection(asConnectionFlags(flags));
  const api = createKubeApi(connection, {requestTimeout, userAgent});
  return {api, description: connection.description, namespace: connection.namespace, [Symbol.dispose]: () => api.close()};
}

/** The parsed values of `connectionFlags`, with `-n`. */
export interface ParsedConnectionFlags
  extends Pick<ConnectionFlags, 'kubeconfig' | 'context' | 'cluster' | 'user' | 'namespace' | 'server' | 'token' | 'as'> {
  readonly 'as-group'?: readonly string[] | undefined;
  readonly 'as-uid'?: string | undefined;
  readonly 'as-user-extra'?: readonly string[] | undefined;
  readonly 'certificate-authority'?: string | undefined;
  readonly 'client-certificate'?: string | undefined;
  readonly 'client-key'?: string | undefined;
  readonly 'insecure-skip-tls-verify'?: boolean | undefined;
  readonly 'tls-server-name'?: string | undefined;
  readonly 'proxy-url'?: string | undefined;
  readonly 'request-timeout'?: string | undefined;
}

export function asConnectionFlags(flags: ParsedConnectionFlags): ConnectionFlags {
  const {kubeconfig, context, cluster, user, namespace, server, token, as} = flags;
  return {
    kubeconfig,
    context,
    cluster,
    user,
    namespace,
    server,
    token,
    as,
    asGroups: flags['as-group'],
    asUid: flags['as-uid'],
    asUserExtra: flags['as-user-extra'] === undefined ? undefined : extraOf(flags['as-user-extra']),
    certificateAuthority: flags['certificate-authority'],
    clientCertificate: flags['client-certificate'],
    clientKey: flags['client-key'],
    insecureSkipTlsVerify: flags['insecure-skip-tls-verify'],
    tlsServerName: flags['tls-server-name'],
    proxyUrl: flags['proxy-url'],
  };
}

/** A key may be repeated. kubectl ignores an argument that is not KEY=VALUE; here it is an error. */
function extraOf(pairs: readonly string[]): Readonly<Record<string, readonly string[]>> {
  const extra: Record<string, string[]> = {};
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    if (at < 1) throw wrongUse(`--as-user-extra: "${pair}" is not KEY=VALUE`);
    const key = pair.slice(0, at);
    extra[key] = [...(extra[key] ?? []), pair.slice(at + 1)];
  }
  return extra;
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
