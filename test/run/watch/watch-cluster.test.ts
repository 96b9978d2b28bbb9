import {afterEach, describe, expect, test} from 'vitest';
import {Interrupted} from '../../../src/run/interruption.ts';
import {openCluster} from '../../../src/run/open-cluster.ts';
import {watchCluster} from '../../../src/run/watch/watch-cluster.ts';
import {capturePath} from '../../fixtures.ts';
import type {ApiServer} from '../../stand-in/api-server.ts';
import {startBundleCluster} from '../../stand-in/bundle-cluster.ts';

const servers: ApiServer[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

interface Given {
  readonly names?: readonly string[];
  /** Called when the watch has slept until so many seconds from its start. */
  readonly at?: (seconds: number, server: ApiServer) => void;
  /** When it is interrupted, in seconds. */
  readonly until: number;
}

/** What is shown and when, in seconds, by a clock that stands still but for those who sleep. */
async function watched({names = ['web'], at = () => {}, until}: Given): Promise<readonly string[]> {
  const server = await startBundleCluster(capturePath('healthy/1.36-iptables'));
  servers.push(server);
  const flags = {transport: 'auto', concurrency: 16, 'node-timeout': '20s', namespace: 'shop', kubeconfig: server.kubeconfig};
  using cluster = openCluster(flags);
  const stop = new AbortController();
  const start = Date.parse('2030-01-01T00:00:00Z');
  let time = start;
  const seconds = () => (time - start) / 1000;
  const clock = {
    now: () => time,
    sleep: async (milliseconds: number) => {
      time += milliseconds;
      if (seconds() >= until) stop.abort(new Interrupted('SIGINT'));
      at(seconds(), server);
    },
  };
  const shown: string[] = [];
  const run = {
    ...{flags, names, cluster, clock, options: {toolVersion: '0.0.0'}, signal: stop.signal},
    progress: {say: () => {}, note: () => {}, close: () => {}},
  };
  const ended = watchCluster({
    ...{run, interval: 30_000},
    show: ({summary}, now) => shown.push(`${(now - start) / 1000} ${summary.verdict}`),
    trouble: message => shown.push(`${seconds()} ${message}`),
  });
  await expect(ended).rejects.toBeInstanceOf(Interrupted);
  return shown;
}

describe('it checks', () => {
  test('again after the interval if nothing changes', async () => {
    expect(await watched({until: 65})).toEqual(['0 ok', '30 ok', '60 ok']);
  });

  test('within five seconds if a Service changes', async () => {
    const shown = await watched({
      until: 14,
      at: (seconds, {store}) => {
        const web = store.find('services', 'shop', 'web');
        if (seconds === 5 && web !== undefined) store.put('services', web);
      },
    });
    expect(shown).toEqual(['0 ok', '5 ok']);
  });

  test('at a Service that lives ten seconds, and at what is left after it', async () => {
    const shown = await watched({
      names: [],
      until: 24,
      at: (seconds, {store}) => {
        const web = store.find('services', 'shop', 'web');
        if (seconds === 5 && web !== undefined) store.put('services', {...web, metadata: {...web.metadata, name: 'short-lived', uid: 'x'}});
        if (seconds === 15) store.remove('services', 'shop', 'short-lived');
      },
    });
    expect(shown.map(line => line.split(' ')[0])).toEqual(['0', '5', '15']);
  });

  test('on if the Service is deleted for a while', async () => {
    let web: Parameters<ApiServer['store']['put']>[1] | undefined;
    const shown = await watched({
      until: 19,
      at: (seconds, {store}) => {
        if (seconds === 5) {
          web = store.find('services', 'shop', 'web');
          store.remove('services', 'shop', 'web');
        }
        if (seconds === 10 && web !== undefined) store.put('services', web);
      },
    });
    expect(shown).toEqual(['0 ok', '5 Service "web" not found in namespace shop', '10 ok']);
  });
});
