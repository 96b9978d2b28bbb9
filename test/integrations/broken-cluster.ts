import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll} from 'vitest';
import {capturePath} from '../fixtures.ts';
import type {ApiServer} from '../stand-in/api-server.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';

/** A folder, and a cluster in which an endpoint is missing: there while the tests of a file run. */
export interface BrokenCluster {
  folder: string;
  server: ApiServer;
}

export function brokenCluster(): BrokenCluster {
  const made = {} as BrokenCluster;
  beforeAll(async () => {
    made.folder = mkdtempSync(join(tmpdir(), 'svc-trace-integrations-'));
    made.server = await startBundleCluster(capturePath('faults/missing-endpoint'));
  });
  afterAll(async () => {
    rmSync(made.folder, {recursive: true});
    await made.server.close();
  });
  return made;
}
