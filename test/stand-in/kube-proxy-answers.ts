import {existsSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import type {NodePage} from './api-server.ts';

const files: Readonly<Record<string, string>> = {
  ...{'10249/proxyMode': 'proxy-mode', '10249/configz': 'configz.json', '10249/metrics': 'metrics'},
  '10256/healthz': 'healthz.json',
};

/** What the kube-proxy of a captured node answers at its ports, both of which it serves on all addresses; 404 for what was not captured. */
export function kubeProxyAnswer(bundle: string, node: string, port: string, path: string): NodePage {
  const file = join(bundle, 'nodes', node, files[`${port}${path}`] ?? 'none');
  return existsSync(file) ? {body: readFileSync(file)} : {status: 404, body: '404 page not found\n'};
}
