import {existsSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {load} from 'js-yaml';
import {describe, expect, test} from 'vitest';
import {brokenCluster} from './broken-cluster.ts';
import {blockWith, script, thisBuild} from './integration-page.ts';

const cluster = brokenCluster();

describe('the k9s plugin', () => {
  interface Plugin {
    readonly shortCut: string;
    readonly scopes: readonly string[];
    readonly command: string;
    readonly args: readonly string[];
  }
  const {plugins} = blockWith<{readonly plugins: Readonly<Record<string, Plugin>>}>('plugins');
  const each = Object.entries(plugins);

  // internal/config/json/schemas/plugins.json of k9s.
  const keys = [
    'shortCut',
    'override',
    'description',
    'confirm',
    'dangerous',
    'scopes',
    'command',
    'background',
    'overwriteOutput',
    'args',
  ];

  test.each(each)('%s has the fields that k9s requires, and no others', (_, plugin) => {
    expect(keys).toEqual(expect.arrayContaining(Object.keys(plugin)));
    expect(plugin).toMatchObject({shortCut: expect.stringMatching(/^Shift-[A-Z]$/), description: expect.any(String), scopes: ['services']});
    expect(plugin.args.every(argument => typeof argument === 'string')).toBe(true);
  });

  test('each plugin has its own key, and none that the Services view uses', () => {
    const shortCuts = each.map(([, {shortCut}]) => shortCut);
    expect(new Set(shortCuts).size).toBe(each.length);
    expect(shortCuts).not.toContain('Shift-T');
  });

  /** As k9s does it: `$NAME` and `${NAME}`; one that it does not know is an error. */
  function substituted(argument: string, values: Readonly<Record<string, string>>): string {
    return argument.replaceAll(/\$!?([\w|-]+)|\$\{!?([\w\-%/: ]+)\}/g, (_, plain?: string, braced?: string) => {
      const value = values[(plain ?? braced ?? '').toUpperCase()];
      if (value === undefined) throw new Error(`k9s knows no variable ${plain ?? braced}`);
      return value;
    });
  }

  test.each(each)('%s runs on the selected Service', async (_, {command, args}) => {
    const context = (load(readFileSync(cluster.server.kubeconfig, 'utf8')) as {readonly 'current-context': string})['current-context'];
    const words = args.map(argument => substituted(argument, {NAMESPACE: 'shop', NAME: 'web', CONTEXT: context}));
    const bin = script(cluster.folder, 'kubectl', `shift\n${thisBuild}`);
    const env = {PATH: `${bin}:${process.env['PATH']}`, KUBECONFIG: cluster.server.kubeconfig, TERM: 'xterm'};
    const {stdout} = await execa(command, words, {env, stdin: 'ignore', reject: false});
    expect(stdout).toContain('shop/web');
    expect(stdout).toContain('ST202');
    expect(stdout).toContain('\u001b[');
  });

  test('a context with characters of the shell stays one argument', async () => {
    const context = '$(touch pwned); "x';
    const {args} = plugins['svc-trace'] ?? {args: []};
    const words = args.map(argument => substituted(argument, {NAMESPACE: 'shop', NAME: 'web', CONTEXT: context}));
    const bin = script(cluster.folder, 'kubectl', 'printf "%s\\n" "$@"\n');
    const {stdout} = await execa('bash', words, {cwd: cluster.folder, env: {PATH: `${bin}:${process.env['PATH']}`}, stdin: 'ignore'});
    expect(stdout.split('\n')).toEqual(['svc-trace', 'trace', 'shop/web', '--context', context, '--color', 'always']);
    expect(existsSync(join(cluster.folder, 'pwned'))).toBe(false);
  });
});
