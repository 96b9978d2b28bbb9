import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {expect, onTestFinished, test} from 'vitest';
import {readBundle} from '../../../src/collect/bundle/read-bundle.ts';
import {diagnose} from '../../../src/diagnose.ts';
import type {Snapshot} from '../../../src/model/snapshot.ts';
import {captureOf, writeCapture} from '../../../src/run/capture/capture-cluster.ts';
import {snapshotUnderChurn} from '../../churn/churn-checks.ts';

const options = {toolVersion: '0.0.0', nodesOnly: true};
const loud = (snapshot: Snapshot) => diagnose(snapshot, options).findings.filter(({severity}) => severity !== 'info');
const lagOf = (snapshot: Snapshot) => diagnose(snapshot, options).nodes.find(({status}) => status === 'checked')?.lag;

async function written(snapshot: Snapshot, redact: boolean): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-history-'));
  onTestFinished(() => rmSync(folder, {recursive: true}));
  const path = join(folder, 'bundle');
  await writeCapture(
    captureOf(snapshot, () => true),
    {path, redact, toolVersion: '0.0.0', signal: new AbortController().signal},
  );
  return path;
}

test('a bundle contains the states of the Services, and gives the same report as the run', async () => {
  const snapshot = snapshotUnderChurn(5);
  expect(loud({...snapshot, history: {since: 0, changes: [], nodes: {}}}).filter(({node}) => node === 'node-a')).not.toEqual([]);
  const read = await readBundle(await written(snapshot, false));
  expect(loud(read).filter(({node}) => node === 'node-a')).toEqual([]);
  expect(lagOf(read)).toEqual(lagOf(snapshot));
});

test('a redacted bundle gives the same, without the names', async () => {
  const snapshot = snapshotUnderChurn(5);
  const path = await written(snapshot, true);
  expect(readFileSync(join(path, 'api/history.json'), 'utf8')).not.toMatch(/shop|svc-\d"|node-a"/);
  const read = await readBundle(path);
  const [node] = read.nodes;
  expect(loud(read).filter(finding => finding.node === node?.name)).toEqual([]);
  expect(lagOf(read)?.seconds).toBe(lagOf(snapshot)?.seconds);
});

test('an unreadable history is reported', async () => {
  const path = await written(snapshotUnderChurn(5), false);
  writeFileSync(join(path, 'api/history.json'), '{"since": 1, "changes": [{"kind": "Pod"}], "nodes": {}}');
  const {history, problems} = await readBundle(path);
  expect(history).toBeUndefined();
  expect(problems.map(({message}) => message)).toEqual(['api/history.json cannot be read: states of Services are not known']);
});
