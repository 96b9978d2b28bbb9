import {afterEach, describe, expect, test} from 'vitest';
import {Interrupted} from '../../../src/run/clock.ts';
import {openCluster} from '../../../src/run/open-cluster.ts';
import {watchCluster} from '../../../src/run/watch/watch-cluster.ts';
import {capturePath} from '../../fixtures.ts';
import type {ApiServer} from '../../stand-in/api-server.ts';
import type {Fault} from '../../stand-in/faults.ts';
import {startBundleCluster} from '../../stand-in/bundle-cluster.ts';

const servers: ApiServer[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

interface Given {
  readonly names?: readonly string[];
  /** Called when the watch has slept until so many seconds from its start. */
  readonly at?: (seconds: number, server: ApiServer) => void | Promise<void>;
  readonly faults?: readonly Fault[];
  /** Called when a check says what it does. */
  readonly onProgress?: (text: string, server: ApiServer) => void;
  /** When it is interrupted, in seconds. */
  readonly until: number;
}

/** What is shown and when, in seconds, by a clock that stands still but for those who sleep. */
async function watched({names = ['web'], at = () => {}, onProgress = () => {}, faults = [], until}: Given): Promise<readonly string[]> {
  const server = await startBundleCluster(capturePath('healthy/1.36-iptables'), {faults});
  servers.push(server);
  const flags = {transport: 'auto', concurrency: 16, 'node-timeout': '10m', namespace: 'shop', kubeconfig: server.kubeconfig};
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
      await at(seconds(), server);
    },
  };
  const shown: string[] = [];
  const run = {
    ...{flags, names, cluster, clock, options: {toolVersion: '0.0.0'}, signal: stop.signal},
    progress: {say: (text: string) => onProgress(text, server), note: () => {}, close: () => {}},
  };
  const ended = watchCluster({
    ...{run, interval: 30_000},
    show: ({summary}, now, passed) => shown.push([(now - start) / 1000, summary.verdict, ...passed.map(({service}) => service)].join(' ')),
    trouble: message => shown.push(`${seconds()} ${message}`),
  });
  await expect(ended).rejects.toBeInstanceOf(Interrupted);
  return shown;
}

/** A Service like `web`. */
function create({store}: ApiServer, name: string, spec: object = {}): void {
  const web = store.find('services', 'shop', 'web') as {readonly metadata: object; readonly spec: object} | undefined;
  if (web !== undefined)
    store.put('services', {...web, metadata: {...web.metadata, name, uid: name}, spec: {...web.spec, ...spec}} as never);
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

  test('at the creation of a Service that lives ten seconds, and at its leftovers', async () => {
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

  /** Long enough for an event to arrive. */
  const arrival = () => new Promise<void>(resolve => setTimeout(resolve, 300));

  test('when a Service existed only between two polls, and reports it', async () => {
    const shown = await watched({
      names: [],
      until: 24,
      at: async (seconds, server) => {
        await arrival();
        if (seconds !== 5) return;
        create(server, 'short-lived');
        await arrival();
        server.store.remove('services', 'shop', 'short-lived');
        await arrival();
      },
    });
    expect(shown).toEqual(['0 findings', '5 findings shop/short-lived']);
  });

  test('and reports a Service that existed only during one check', async () => {
    let isDone = false;
    const shown = await watched({
      names: [],
      until: 10,
      at: arrival,
      // The list of Services has been read then.
      onProgress: (text, server) => {
        if (isDone || !text.includes('nodes')) return;
        isDone = true;
        create(server, 'short-lived');
        create(server, 'headless', {clusterIP: 'None'});
        for (const name of ['short-lived', 'headless']) server.store.remove('services', 'shop', name);
      },
    });
    expect(isDone).toBe(true);
    expect(shown.join()).toContain('shop/short-lived');
    expect(shown.join()).not.toContain('headless');
  });

  test('by polls alone where watches are refused', async () => {
    const shown = await watched({
      names: [],
      until: 14,
      faults: [{kind: 'status', status: 403, match: /watch=1/}],
      at: (seconds, server) => {
        if (seconds === 5) create(server, 'new');
      },
    });
    expect(shown).toEqual(['0 findings', '5 findings']);
  });

  test('further if the Service is deleted for a while', async () => {
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
    expect(shown).toEqual(['0 ok', expect.stringMatching(/^5 Service "web" not found in namespace shop\. If it was deleted/), '10 ok']);
  });
});
