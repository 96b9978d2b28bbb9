import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {execa} from 'execa';
import {load, loadAll} from 'js-yaml';
import {afterAll, beforeAll, expect, test} from 'vitest';
import packageJson from '../../package.json' with {type: 'json'};
import {writeChart} from '../../tools/chart.ts';
import {writeManifests} from '../../tools/release/deploy-files.ts';
import {describeWith, helm} from '../require.ts';
import type {AppliedObject} from './apply-server.ts';
import {built, deployFolder, overlayNamed, overlays} from './overlays.ts';
import {podsOf} from './pods.ts';

const exec = ['agents.enabled=false', 'check.mode=exec'];
const noJob = ['check.mode=none'];
/** What makes the chart the same as each overlay of deploy/. */
const values: Readonly<Record<string, readonly string[]>> = {
  cronjob: exec,
  'cronjob with OpenReports': [...exec, 'check.reports=openreports'],
  'cronjob with PolicyReports': [...exec, 'check.reports=policyreport'],
  "cronjob that may read kube-proxy's pages": [...exec, 'check.nodesProxy=true'],
  agents: noJob,
  'agents that read Cilium too': [...noJob, 'agents.cilium=true'],
  'agents with a job that collects their results': [],
  'agents with a job that writes OpenReports': ['check.reports=openreports'],
  'agents with a job that writes PolicyReports': ['check.reports=policyreport'],
  'agents with monitoring': [...noJob, 'prometheusOperator.enabled=true', 'grafana.enabled=true'],
  'agents with everything': ['check.reports=openreports', 'prometheusOperator.enabled=true', 'grafana.enabled=true'],
};

describeWith(['kubectl', 'helm'], 'the Helm chart', () => {
  let folder: string;
  let chart: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'svc-trace-chart-'));
    chart = join(folder, 'svc-trace');
    writeChart(chart);
  });
  afterAll(() => rmSync(folder, {recursive: true}));

  const template = (settings: readonly string[], namespace = 'svc-trace') =>
    execa(helm, ['template', 'svc-trace', chart, '--namespace', namespace, ...settings.flatMap(one => ['--set-json', jsonValue(one)])], {
      reject: false,
      env: {HELM_CACHE_HOME: folder, HELM_CONFIG_HOME: folder, HELM_DATA_HOME: folder},
    });
  const objectsOf = async (settings: readonly string[], namespace?: string) => {
    const {stdout, stderr} = await template(settings, namespace);
    expect(stderr).toBe('');
    return loadAll(stdout).filter(Boolean) as readonly AppliedObject[];
  };

  test('passes helm lint', async () => {
    expect((await execa(helm, ['lint', '--strict', chart], {reject: false})).stdout).toContain('1 chart(s) linted, 0 chart(s) failed');
  });

  test('has values for every overlay', () => expect(Object.keys(values)).toEqual(Object.keys(overlays)));

  test.each(Object.entries(values))('%s: gives the objects of the Kustomization, and no others', async (name, settings) => {
    const objects = await objectsOf(['namespace.create=true', ...settings]);
    expect(byKey(objects)).toEqual(byKey(await built(overlayNamed(name))));
  });

  test('is of the version of the package', () => {
    const {version, appVersion} = load(readFileSync(join(chart, 'Chart.yaml'), 'utf8')) as Record<string, string>;
    expect([version, appVersion]).toEqual([packageJson.version, packageJson.version]);
  });

  test('puts values where they belong', async () => {
    const digest = `sha256:${'0123456789abcdef'.repeat(4)}`;
    const objects = await objectsOf(
      [
        ...['agents.interval=5m', 'agents.extraArgs=["--endpoint-connections"]', 'agents.priorityClassName=system-cluster-critical'],
        ...[
          'check.schedule=0 * * * *',
          'check.extraArgs=["--skip=ST101"]',
          `check.image={"repository":"r.example/x","tag":"9","digest":"${digest}"}`,
        ],
      ],
      'elsewhere',
    );
    const [agents, job] = podsOf(objects);
    expect(agents?.containers[0]?.args).toEqual(expect.arrayContaining(['5m', '--endpoint-connections']));
    expect(agents).toMatchObject({priorityClassName: 'system-cluster-critical'});
    expect(job?.containers[0]).toMatchObject({image: `r.example/x:9@${digest}`});
    expect(job?.containers[0]?.args?.slice(-2)).toEqual(['--skip=ST101', '--agents-namespace=elsewhere']);
    expect(objects.find(({kind}) => kind === 'CronJob')).toMatchObject({spec: {schedule: '0 * * * *'}});
    expect(JSON.stringify(objects)).toContain('"values":["system-cluster-critical"]');
    expect(new Set(objects.flatMap(({metadata}) => metadata.namespace ?? []))).toEqual(new Set(['elsewhere', 'kube-system']));
    expect(JSON.stringify(objects)).not.toContain('"namespace":"svc-trace"');
  });

  test.each([
    ['an unknown value', 'agents.intervall=60s', /additional properties 'intervall' not allowed/],
    ['an invalid one', 'agents.interval=often', /'often' does not match pattern/],
    ['a right to the kubelets that no job uses', 'check.nodesProxy=true', /set check\.mode=exec/],
    [
      'a right of agents without them',
      ['agents.enabled=false', 'check.mode=none', 'agents.cilium=true'],
      /agents\.cilium is a right of agents/,
    ],
    ['a job that collects from no agents', 'agents.enabled=false', /set agents\.enabled=true, or check\.mode=exec or none/],
  ])('refuses %s', async (_, settings, message) => {
    const {stderr, exitCode} = await template([settings].flat());
    expect(stderr).toMatch(message);
    expect(exitCode).toBe(1);
  });

  test('and the manifests of a release name the images by their digests', () => {
    const pinned = join(folder, 'pinned');
    const digests = {'svc-trace': `sha256:${'a'.repeat(64)}`, 'svc-trace-agent': `sha256:${'b'.repeat(64)}`};
    writeChart(pinned, digests);
    writeManifests(join(folder, 'deploy'), digests);
    const job = readFileSync(join(folder, 'deploy/cronjob/cronjob.yaml'), 'utf8');
    expect(job).toContain(`image: ghcr.io/svc-trace/svc-trace:${packageJson.version}@${digests['svc-trace']}\n`);
    expect(() => writeManifests(join(folder, 'none'), {})).toThrow(/^the digest of the image svc-trace(-agent)? is missing$/);
    const {agents, check} = load(readFileSync(join(pinned, 'values.yaml'), 'utf8')) as Record<string, {image: {digest: string}}>;
    expect([agents?.image.digest, check?.image.digest]).toEqual([digests['svc-trace-agent'], digests['svc-trace']]);
  });

  test('has annotations that Artifact Hub reads, with the images of its values', () => {
    const {annotations} = load(readFileSync(join(chart, 'Chart.yaml'), 'utf8')) as {annotations: Record<string, string>};
    const images = load(annotations['artifacthub.io/images'] ?? '') as readonly {image: string}[];
    const text = readFileSync(join(deployFolder, 'chart/values.yaml'), 'utf8');
    const own = [...text.matchAll(/repository: (\S+)\n +tag: (\S+)/g)].map(([, repository, tag]) => `${repository}:${tag}`);
    expect(images.map(({image}) => image).sort()).toEqual(own.sort());
    expect(annotations['artifacthub.io/category']).toBe('networking');
  });
});

function byKey(objects: readonly AppliedObject[]) {
  return Object.fromEntries(objects.map(object => [`${object.kind} ${object.metadata.namespace ?? ''}/${object.metadata.name}`, object]));
}

/** `a.b=true`, and texts as JSON too. */
function jsonValue(setting: string): string {
  const [path = '', ...rest] = setting.split('=');
  const value = rest.join('=');
  return `${path}=${/^(?:true|false|[[{].*)$/.test(value) ? value : JSON.stringify(value)}`;
}
