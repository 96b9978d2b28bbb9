// `live-bundle.ts DIR`: the cluster of a bundle behind an API server, in a process of its own, so that what it takes to serve is not
// counted. It reports its address and, on request, the requests that it got.
import process from 'node:process';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';

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

if (process.send !== undefined) {
  const server = await startBundleCluster(process.argv[2] ?? '');
  process.on('disconnect', () => void server.close().then(() => process.exit()));
  process.on('message', () => {
    process.send?.({requests: server.requests.length, connections: server.connections(), ...server.traffic()} satisfies Asked);
  });
  process.send({kubeconfig: server.kubeconfig} satisfies LiveBundleReady);
}
