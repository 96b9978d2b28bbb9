import {mkdtempSync, readdirSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {expect, onTestFinished, test} from 'vitest';
import {noObjects} from '../../../src/model/snapshot.ts';
import {listenForInterruption} from '../../../src/run/clock.ts';
import {writeCapture} from '../../../src/run/capture/capture-cluster.ts';

test.each(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const)(
  '%s before the first node is read ends what would go on while nodes are read, and leaves no bundle',
  async name => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-trace-capture-'));
    onTestFinished(() => rmSync(folder, {recursive: true}));
    const {signal, close} = listenForInterruption();
    onTestFinished(close);
    process.emit(name, name);
    let isClosed = false;
    const api = {...noObjects, services: []};
    const capture = {
      origin: 'context prod',
      takenAt: null,
      chosenNodes: false,
      nodes: [],
      problems: [],
      api,
      close: () => (isClosed = true),
    };
    const written = writeCapture(capture, {path: join(folder, 'x.tgz'), redact: false, toolVersion: '0', signal});
    await expect(written).rejects.toThrow(`interrupted (${name})`);
    expect([isClosed, readdirSync(folder)]).toEqual([true, []]);
  },
);
