import {Errors} from '@oclif/core';
import {createKubeApi} from '../collect/kube/create-kube-api.ts';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import {loadConnection} from '../collect/kube/load-connection.ts';
import {parseTimeout} from '../collect/kube/parse-timeout.ts';
import {asConnectionFlags, type ParsedConnectionFlags} from './options/connection.ts';

/** A cluster to talk to. Disposing of it closes the connections. */
export interface OpenCluster extends Disposable {
  readonly api: KubeApi;
  /** In words: the context and the server. */
  readonly description: string;
  /** The namespace where none is named: of `-n`, else of the context, else `default`. */
  readonly namespace: string;
}

/**
 * The API server that kubectl would talk to with these flags; nothing is sent yet. Throws a KubeconfigError or a CLIError, which
 * both are wrong use.
 */
export function openCluster(flags: ParsedConnectionFlags, userAgent = 'svc-trace'): OpenCluster {
  const text = flags['request-timeout'] ?? '0';
  const requestTimeout = parseTimeout(text);
  if (requestTimeout === null) throw new Errors.CLIError(`--request-timeout: "${text}" is not a duration; write 30s, 1m or 0`, {exit: 2});
  const connection = loadConnection(asConnectionFlags(flags));
  const api = createKubeApi(connection, {requestTimeout, userAgent});
  return {api, description: connection.description, namespace: connection.namespace, [Symbol.dispose]: () => api.close()};
}
