import {expect, test} from 'vitest';
import type {NodeShell} from '../../../src/collect/node/transport.ts';
import type {Snapshot} from '../../../src/model/snapshot.ts';
import {systemClock} from '../../../src/run/clock.ts';
import {readSample} from '../../../src/run/top/read-sample.ts';
import {Diagnosis} from '../../../src/diagnosis/diagnosis.ts';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import {surveyNode} from '../../../src/traffic/node-survey.ts';
import {snapshotOf} from '../../fixtures.ts';

/** The commands of conntrack that count the open connections of these Services on node-a. */
async function conntrackCommands(names: readonly string[]): Promise<readonly string[]> {
  const snapshot: Snapshot = await snapshotOf('healthy/1.36-iptables');
  const [node] = snapshot.nodes;
  if (node === undefined) throw new Error('no node');
  const options = {toolVersion: '0.0.0', trace: true};
  const {services} = new Diagnosis(snapshot.api, options);
  const chosen = services.filter(({metadata}) => names.includes(metadata.name));
  const survey = surveyNode(node, {api: snapshot.api, view: new ClusterView(snapshot.api), services: chosen, options});
  const asked: string[] = [];
  const shell: NodeShell = {
    description: 'recording',
    run: async argv => {
      asked.push(argv.join(' '));
      return Buffer.alloc(0);
    },
    async [Symbol.asyncDispose]() {},
  };
  await readSample({shell, survey, programs: new Map(), signal: new AbortController().signal, clock: systemClock});
  return asked.filter(command => command.startsWith('conntrack'));
}

test('connections to one address are filtered on the node', async () => {
  expect(await conntrackCommands(['web'])).toEqual(['conntrack -L -f ipv4 -o id --orig-dst 10.96.1.1']);
});

test('connections to many addresses are read at once: each filter reads the whole table again', async () => {
  expect(await conntrackCommands(['web', 'sticky', 'zonal', 'leaving'])).toEqual(['conntrack -L -f ipv4 -o id']);
});
