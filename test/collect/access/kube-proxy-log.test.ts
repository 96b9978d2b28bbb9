import {expect, test} from 'vitest';
import type {KubeApi} from '../../../src/collect/kube/kube-api.ts';
import type {NodeInfo} from '../../../src/collect/node/transport.ts';
import {kubeProxyLogOf} from '../../../src/collect/transports/host-agents.ts';

const minutesAgo = (minutes: number): string => new Date(Date.now() - minutes * 60_000).toISOString();

interface Given {
  readonly state: object;
  readonly lastState?: object;
  /** The node has removed the log of the last run. */
  readonly isRemoved?: boolean;
}

async function readLog({state, lastState = {}, isRemoved = false}: Given): Promise<string | undefined> {
  const pod = {
    metadata: {name: 'kube-proxy-x7', namespace: 'kube-system', labels: {'k8s-app': 'kube-proxy'}},
    spec: {nodeName: 'node-a', containers: [{name: 'kube-proxy'}]},
    status: {containerStatuses: [{name: 'kube-proxy', ready: true, restartCount: 9, state, lastState}]},
  };
  const node = {name: 'node-a', addresses: [], labels: {}, pods: [pod]} as unknown as NodeInfo;
  async function* stream(isPrevious: boolean): AsyncGenerator<Buffer> {
    if (isPrevious && isRemoved) throw new Error('previous terminated container "kube-proxy" not found');
    yield Buffer.from(isPrevious ? 'of the last run\n' : 'of this run\n');
  }
  const api = {
    stream: async (_path: string, query: Readonly<Record<string, string>>) => stream(query['previous'] === 'true'),
  } as unknown as KubeApi;
  return (await kubeProxyLogOf(api)(node, new AbortController().signal))?.toString();
}

const failed = {terminated: {exitCode: 1, reason: 'Error'}};

test('the log of the last run comes before that of a container that was just started again', async () => {
  expect(await readLog({state: {running: {startedAt: minutesAgo(1)}}, lastState: failed})).toBe('of the last run\nof this run\n');
});

test('the log of this run alone is read if it has lasted for long, if the last one ended without an error, and if there was none', async () => {
  for (const given of [
    {state: {running: {startedAt: minutesAgo(60)}}, lastState: failed},
    {state: {running: {startedAt: minutesAgo(1)}}, lastState: {terminated: {exitCode: 0, reason: 'Completed'}}},
    {state: {running: {startedAt: minutesAgo(1)}}},
    {state: {waiting: {reason: 'CrashLoopBackOff'}}, lastState: failed},
  ])
    expect(await readLog(given)).toBe('of this run\n');
});

test('a log of the last run that the node has removed is left out', async () => {
  expect(await readLog({state: {running: {startedAt: minutesAgo(1)}}, lastState: failed, isRemoved: true})).toBe('of this run\n');
});
