import {expect, test} from 'vitest';
import {Redaction} from '../../../src/redact/redaction.ts';
import {type Capture, redactCapture} from '../../../src/run/capture/capture-cluster.ts';

const capture: Capture = {
  ...{origin: 'context prod', takenAt: '2026-11-21T09:31:23Z', chosenNodes: false, nodes: [], problems: []},
  api: {services: [], endpointSlices: null, endpoints: null, nodes: null, pods: null, configMaps: null},
};
const redactedVersion = (serverVersion: string) => redactCapture({...capture, serverVersion}, new Redaction('key')).serverVersion;

test('keeps the version of the API server without its suffix, which can name a company', () => {
  expect(['v1.36.2', 'v1.31.4-corp.example', 'v1.33.1+acme1', '1.30'].map(redactedVersion)).toEqual([
    'v1.36.2',
    'v1.31.4',
    'v1.33.1',
    '1.30',
  ]);
});

test('leaves out any other value that a server gives as its version', () => {
  expect(redactedVersion('internal build of corp.example')).toBeUndefined();
  expect(redactCapture(capture, new Redaction('key')).serverVersion).toBeUndefined();
});
