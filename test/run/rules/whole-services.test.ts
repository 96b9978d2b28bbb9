import {mkdirSync, mkdtempSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {expect, test} from 'vitest';
import {readBundle} from '../../../src/collect/bundle/read-bundle.ts';
import {type ApiObjects, noObjects, type Problem, type Snapshot} from '../../../src/model/snapshot.ts';
import {requireServices} from '../../../src/run/rules/choose-rules-node.ts';

function snapshot(api: Partial<ApiObjects>, problems: readonly Problem[] = []): Snapshot {
  return {origin: 'here', api: {...noObjects, ...api}, nodes: [], problems};
}

test('rules need only Services with slices or Endpoints', () => {
  expect(() => requireServices(snapshot({services: [], endpointSlices: []}))).not.toThrow();
  expect(() => requireServices(snapshot({services: [], endpoints: []}))).not.toThrow();
});

test('gives the problem of the list that was not read, not another whose message has the same word', () => {
  const problems: readonly Problem[] = [
    {message: 'services and endpointslices is the text of an unusable node'},
    {message: 'slices: forbidden', list: 'endpointSlices', remedy: 'get the right to list slices'},
    {message: 'Services: forbidden', list: 'services', remedy: 'get the right to list Services'},
  ];
  expect(() => requireServices(snapshot({}, problems))).toThrow('the Services could not be read: Services: forbidden');
  expect(() => requireServices(snapshot({services: []}, problems))).toThrow('the EndpointSlices could not be read: slices: forbidden');
});

test('gives no reason if none is known', () => {
  expect(() => requireServices(snapshot({}))).toThrow(/^the Services could not be read$/);
});

test('names what is wrong with the file of a bundle', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'whole-services-'));
  mkdirSync(join(folder, 'api'));
  writeFileSync(join(folder, 'api', 'services.json'), '{"items": []}');
  writeFileSync(join(folder, 'api', 'endpointslices.json'), '{"items": [');
  const read = await readBundle(folder);
  expect(() => requireServices(read)).toThrow(/^the EndpointSlices could not be read: api\/endpointslices\.json is not valid JSON: /);
});

test('names what failed when the bundle was captured', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'whole-services-'));
  mkdirSync(join(folder, 'api'));
  const problems = [{message: 'cannot list endpointslices: forbidden', list: 'endpointSlices'}];
  writeFileSync(join(folder, 'snapshot.json'), JSON.stringify({nodes: {}, problems}));
  writeFileSync(join(folder, 'api', 'services.json'), '{"items": []}');
  const read = await readBundle(folder);
  expect(() => requireServices(read)).toThrow('the EndpointSlices could not be read: cannot list endpointslices: forbidden');
});
