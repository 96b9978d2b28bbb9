import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {execa} from 'execa';
import {describe, expect, test} from 'vitest';
import {CommandFailed, type NodeShell} from '../../../src/collect/node/transport.ts';
import type {Snapshot} from '../../../src/model/snapshot.ts';
import {systemClock} from '../../../src/run/clock.ts';
import {readSample} from '../../../src/run/top/read-sample.ts';
import {Diagnosis} from '../../../src/diagnosis/diagnosis.ts';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import {surveyNode} from '../../../src/traffic/node-survey.ts';
import {snapshotOf} from '../../fixtures.ts';
import {natTable} from '../../traffic/reads.ts';

async function surveyed(names: readonly string[]) {
  const snapshot: Snapshot = await snapshotOf('healthy/1.36-iptables');
  const [node] = snapshot.nodes;
  if (node === undefined) throw new Error('no node');
  const options = {toolVersion: '0.0.0', trace: true};
  const {services} = new Diagnosis(snapshot.api, options);
  const chosen = services.filter(({metadata}) => names.includes(metadata.name));
  return surveyNode(node, {api: snapshot.api, view: new ClusterView(snapshot.api), services: chosen, options});
}

/** The commands of conntrack that count the open connections of these Services on node-a. */
async function conntrackCommands(names: readonly string[]): Promise<readonly string[]> {
  const survey = await surveyed(names);
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

describe('the time of a read of counters', () => {
  /** Prints the table nat after a while, and goes on printing; `sh` is the real one, or missing. */
  const read = async (hasShell: boolean) => {
    const folder = mkdtempSync(join(tmpdir(), 'read-sample-'));
    const program = join(folder, 'iptables-save');
    writeFileSync(join(folder, 'nat'), natTable({4: 7}));
    writeFileSync(program, `#!/bin/sh\nsleep 0.2\nhead -2 ${folder}/nat\nsleep 0.6\ntail -n +3 ${folder}/nat\n`, {mode: 0o755});
    const shell: NodeShell = {
      description: 'real',
      run: async ([command = '', ...args], _signal, take) => {
        if (command === 'sh' && !hasShell) throw new CommandFailed([command], {exitCode: 127, notFound: true, stderr: 'sh: not found'});
        const {stdout} = await execa(command, args, {encoding: 'buffer'});
        take?.(Buffer.from(stdout));
        return Buffer.alloc(0);
      },
      async [Symbol.asyncDispose]() {},
    };
    const programs = new Map([['IPv4', program]] as const);
    const survey = await surveyed(['web']);
    const sample = await readSample({
      shell,
      survey,
      programs,
      signal: new AbortController().signal,
      clock: systemClock,
      withoutConntrack: true,
    });
    rmSync(folder, {recursive: true});
    return sample;
  };

  test('is taken on the node, until the first line comes: what is printed after it was read before', async () => {
    const {onNode, nat, width = 0} = await read(true);
    expect(onNode?.width).toBeGreaterThanOrEqual(150);
    expect(width - (onNode?.width ?? 0)).toBeGreaterThanOrEqual(500);
    expect([...(nat.get('IPv4')?.ports.values() ?? [])].map(({endpoints}) => [...endpoints])).toEqual([[['10.244.1.4:8080', 7]]]);
  });

  test('is that of the whole command where the node has no shell', async () => {
    const {onNode, nat} = await read(false);
    expect(onNode).toBeUndefined();
    expect(nat.get('IPv4')?.complete).toBe(true);
  });
});
