// `live-bundle.ts DIR`: the cluster of a bundle behind an API server, in a process of its own, so that what it takes to serve is not
// counted. It reports its address and, on request, the requests that it got.
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {iptablesOutput} from '../collect/node/fake-iptables.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';
import type {ExecCommand, ExecReply} from '../stand-in/exec.ts';

/** The message of the process when it is ready. */
export interface LiveBundleReady {
  readonly kubeconfig: string;
}

/** The response to each message: the totals since its start. */
export interface Asked {
  readonly requests: number;
  readonly connections: number;
  /** Bytes on the wire, TLS included. */
  readonly received: number;
  readonly sent: number;
}

const dumps = new Map<string, string>();

if (process.send !== undefined) {
  const folder = process.argv[2] ?? '';
  const server = await startBundleCluster(folder, {exec: command => listing(folder, command)});
  process.on('disconnect', () => void server.close().then(() => process.exit()));
  process.on('message', () => {
    process.send?.({requests: server.requests.length, connections: server.connections(), ...server.traffic()} satisfies Asked);
  });
  process.send({kubeconfig: server.kubeconfig} satisfies LiveBundleReady);
}

/** Of one chain, as the nft backend lists it; null for other commands. What iptables-nft-save itself takes on such a node is not in any figure. */
function listing(folder: string, {node, argv}: ExecCommand): ExecReply | null {
  const [program = ''] = argv;
  if (program !== 'iptables' && program !== 'ip6tables') return null;
  const file = join(folder, 'nodes', node, `${program}-save`);
  const dump = dumps.get(file) ?? readFileSync(file, 'latin1');
  dumps.set(file, dump);
  const stdout = iptablesOutput(dump, argv, {many: false});
  return stdout === null ? {exitCode: 1, stderr: `${program}: No chain/target/match by that name.\n`} : {stdout};
}
