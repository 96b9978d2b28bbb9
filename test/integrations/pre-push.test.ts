import process from 'node:process';
import {execa} from 'execa';
import {describe, expect, test} from 'vitest';
import {codeBlocksOf} from '../doc-pages.ts';
import {parseCommandLine} from '../parse-command-line.ts';
import {brokenCluster} from './broken-cluster.ts';
import {blockWith, page, script, thisBuild} from './integration-page.ts';

const cluster = brokenCluster();

describe('the pre-push hooks', () => {
  interface Hook {
    readonly id: string;
    readonly entry: string;
    readonly language: string;
    readonly stages: readonly string[];
  }
  const {repos} = blockWith<{readonly repos: readonly {readonly repo: string; readonly hooks: readonly Hook[]}[]}>('repos');

  test('pre-commit gets a local hook with the fields that it requires, and a command that check accepts', async () => {
    expect(repos).toMatchObject([
      {repo: 'local', hooks: [{id: 'svc-trace', name: expect.any(String), language: 'system', stages: ['pre-push']}]},
    ]);
    const entry = repos[0]?.hooks[0]?.entry ?? '';
    expect(entry).toMatch(/^kubectl svc-trace /);
    await parseCommandLine(entry.split(' ').slice(2));
  });

  test('the script rejects a push if a check fails', async () => {
    const text = codeBlocksOf(page).find(block => block.text.startsWith('#!/bin/sh'))?.text ?? '';
    const bin = script(cluster.folder, 'kubectl', `shift\n${thisBuild}`);
    const env = {PATH: `${bin}:${process.env['PATH']}`, KUBECONFIG: cluster.server.kubeconfig};
    const {stdout, stderr, exitCode} = await execa('sh', ['-c', text], {env, stdin: 'ignore', reject: false});
    expect(stdout).toContain('ST202');
    expect({stderr, exitCode}).toEqual({stderr: '', exitCode: 1});
  });
});
