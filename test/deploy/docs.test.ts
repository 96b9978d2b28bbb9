import {mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {execa} from 'execa';
import {load, loadAll} from 'js-yaml';
import {describe, expect, test} from 'vitest';
import {describeWith, kubectl, testWith} from '../require.ts';
import type {AppliedObject} from './apply-server.ts';
import {built, deployFolder, overlays} from './overlays.ts';
import {schemaErrors} from './schema.ts';

const page = readFileSync(join(deployFolder, '../docs/deploy.md'), 'utf8');
const blocks = [...page.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text);
const kustomizations = blocks.filter(text => /^(?:resources|patches):/m.test(text));

describe('docs/deploy.md', () => {
  for (const text of kustomizations) {
    testWith(['kubectl'], `shows a Kustomization that can be built: ${text.split('\n').slice(0, 2).join(' ')}`, async () => {
      const folder = mkdtempSync(join(tmpdir(), 'svc-trace-docs-'));
      try {
        symlinkSync(join(deployFolder, '..'), join(folder, 'svc-trace'));
        const resources = text.startsWith('resources') ? '' : 'resources: [../svc-trace/deploy/agents]\n';
        writeFileSync(join(folder, 'kustomization.yaml'), (resources + text).replaceAll('../svc-trace/deploy', join('svc-trace/deploy')));
        const {stdout} = await execa(kubectl, ['kustomize', folder]);
        expect(await schemaErrors(loadAll(stdout) as readonly AppliedObject[])).toEqual([]);
        for (const value of text.matchAll(/value: '?([^',{}]+)'?\}/g)) expect(stdout).toContain(value[1]);
        for (const [, name = ''] of text.matchAll(/newName: (\S+)/g)) expect(stdout).toContain(`image: ${name}:`);
      } finally {
        rmSync(folder, {recursive: true});
      }
    });
  }

  test('shows Kustomizations', () => expect(kustomizations.length).toBeGreaterThan(1));

  test('names every alert with its severity', () => {
    const {groups} = load(readFileSync(join(deployFolder, 'monitoring/svc-trace.rules.yaml'), 'utf8')) as {
      readonly groups: readonly {readonly rules: readonly {readonly alert: string; readonly labels: {readonly severity: string}}[]}[];
    };
    const rows = [...page.matchAll(/^\| (SvcTrace\w+) \|.*\| (\w+) \|$/gm)].map(([, alert, severity]) => `${alert} ${severity}`);
    expect(rows).toEqual(groups.flatMap(({rules}) => rules.map(({alert, labels}) => `${alert} ${labels.severity}`)));
  });

  testWith(['kubectl'], 'deploy/ itself is the agents with the job that collects their results', async () => {
    const {stdout} = await execa(kubectl, ['kustomize', deployFolder]);
    expect(loadAll(stdout)).toEqual(await built(overlays['agents with a job that collects their results'] ?? {resources: []}));
  });
});

describeWith(['promtool'], 'by promtool', () => {
  test('the scrape_configs of docs/deploy.md are valid', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-trace-promtool-'));
    try {
      const shown = blocks.find(text => text.includes('scrape_configs')) ?? '';
      // Debian's Prometheus is built without Kubernetes service discovery.
      const config = shown.replace(/kubernetes_sd_configs:\n(?: {6}.*\n)+/, 'static_configs: []\n');
      expect(config).not.toBe(shown);
      const mounted = '/var/run/secrets/kubernetes.io/serviceaccount/token';
      expect(config).toContain(`credentials_file: ${mounted}\n`);
      writeFileSync(join(folder, 'token'), 'abc');
      symlinkSync(join(deployFolder, 'monitoring/svc-trace.rules.yaml'), join(folder, 'svc-trace.rules.yaml'));
      writeFileSync(join(folder, 'prometheus.yml'), config.replace(mounted, join(folder, 'token')));
      const {stdout} = await execa('promtool', ['check', 'config', join(folder, 'prometheus.yml')]);
      expect(stdout).toMatch(/SUCCESS: .*prometheus\.yml is valid/);
      expect(stdout).toContain('rules found');
    } finally {
      rmSync(folder, {recursive: true});
    }
  });
});
