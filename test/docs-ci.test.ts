import {existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {loadAll} from 'js-yaml';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {permissionsFor} from '../src/collect/access/permissions.ts';
import {roleManifest} from '../src/render/access/access-report.ts';
import {allowedBy} from './collect/access/roles.ts';
import {capturePath} from './fixtures.ts';
import type {ApiServer} from './stand-in/api-server.ts';
import {startBundleCluster} from './stand-in/bundle-cluster.ts';

const folder = join(import.meta.dirname, '../docs/ci');
const executable = join(import.meta.dirname, '../bin/run.js');
const files = readdirSync(folder);
const manifests = files.filter(name => name.endsWith('.yaml'));
const images = ['argo-cd-post-sync.yaml', 'argo-rollouts.yaml', 'helm-test.yaml'];

function read(name: string): string {
  return readFileSync(join(folder, name), 'utf8');
}

interface KubernetesObject {
  readonly kind: string;
  readonly metadata: {readonly name: string; readonly namespace?: string};
  readonly roleRef: {readonly kind: string; readonly name: string};
  readonly subjects: readonly {readonly kind: string; readonly name: string; readonly namespace: string}[];
}

/** All that is in a document, however deep. */
function partsOf(part: unknown): readonly Readonly<Record<string, unknown>>[] {
  if (typeof part !== 'object' || part === null) return [];
  return [part as Readonly<Record<string, unknown>>, ...Object.values(part).flatMap(partsOf)];
}

/** What Argo Rollouts and Helm put in. */
function filledIn(word: string): string {
  return word.replace('{{args.service}}', 'web').replace('{{ .Release.Name }}', 'web').replace('{{ .Release.Namespace }}', 'shop');
}

/** The svc-trace commands of a file, in their order: lines of scripts, and arguments of containers. */
function commandsOf(name: string): readonly (readonly string[])[] {
  const isContainer = images.includes(name);
  const containers = isContainer
    ? loadAll(read(name))
        .flatMap(partsOf)
        .filter(({image}) => image !== undefined)
    : [];
  const lines = [...read(name).matchAll(/^(?:\s*(?:- |run: )?)kubectl svc-trace (.+)$/gm)].map(([, line = '']) => line.split(/\s+/));
  return [...lines, ...containers.map(({args}) => (args as readonly string[]).map(filledIn))];
}

describe('the examples for pipelines', () => {
  test.each(manifests)('%s is YAML', name => {
    expect(loadAll(read(name)).every(document => typeof document === 'object' && document !== null)).toBe(true);
  });

  test('are all listed', () => {
    const listed = [...read('README.md').matchAll(/^\| \[([^\]]+)\]\(\1\)/gm)].map(([, name]) => name);
    expect(listed.toSorted()).toEqual(files.filter(name => name !== 'README.md').toSorted());
  });

  test('the Roles are those that "access" prints, and each is given to the ServiceAccount', () => {
    const objects = loadAll(read('rbac.yaml')) as readonly KubernetesObject[];
    const isRole = ({kind}: KubernetesObject) => kind === 'Role' || kind === 'ClusterRole';
    const roles = objects.filter(isRole);
    expect(roles).toEqual(loadAll(roleManifest(permissionsFor({transport: 'exec', namespace: 'shop', debugNamespace: 'kube-system'}))));
    const given = objects.filter(({kind}) => kind.endsWith('Binding'));
    expect(given.map(({roleRef, metadata}) => `${roleRef.kind} ${roleRef.name} ${metadata.namespace ?? ''}`).sort()).toEqual(
      roles.map(({kind, metadata}) => `${kind} ${metadata.name} ${metadata.namespace ?? ''}`).sort(),
    );
    const account = objects.find(({kind}) => kind === 'ServiceAccount')?.metadata;
    expect(new Set(given.flatMap(({subjects}) => subjects.map(subject => JSON.stringify(subject))))).toEqual(
      new Set([JSON.stringify({kind: 'ServiceAccount', ...account})]),
    );
  });

  test.each(images)('%s runs as that ServiceAccount, without privileges on its node', name => {
    const parts = loadAll(read(name)).flatMap(partsOf);
    expect(parts.filter(part => 'containers' in part).map(part => part['serviceAccountName'])).toEqual(['svc-trace']);
    expect(parts.find(part => 'securityContext' in part)?.['securityContext']).toMatchObject({
      ...{runAsNonRoot: true, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: ['ALL']}},
    });
  });

  test("Flagger's test is the Helm test of that release, and may take longer than the wait", () => {
    const [canary] = loadAll(read('flagger.yaml'));
    expect(partsOf(canary).find(({cmd}) => cmd !== undefined)).toMatchObject({type: 'helmv3', cmd: 'test web --timeout 3m -n shop'});
  });
});

describe('with no other permissions their commands succeed', () => {
  let server: ApiServer;
  let place: string;

  beforeAll(async () => {
    server = await startBundleCluster(capturePath('healthy/1.36-iptables'), {
      tokens: {job: {user: 'system:serviceaccount:shop:svc-trace'}},
      allow: allowedBy(rolesOnly()),
    });
    place = mkdtempSync(join(tmpdir(), 'svc-trace-ci-'));
    writeFileSync(join(place, 'kubeconfig'), readFileSync(server.kubeconfig, 'utf8').replace('admin-token', 'job'));
  });

  afterAll(async () => {
    rmSync(place, {recursive: true});
    await server.close();
  });

  const withCommands = files.filter(name => commandsOf(name).length > 0);

  test('every example has commands, except those that take them from elsewhere', () => {
    expect(withCommands.toSorted()).toEqual(files.filter(name => !['Dockerfile', 'flagger.yaml', 'rbac.yaml'].includes(name)).toSorted());
  });

  test.each(withCommands)('%s', async name => {
    for (const args of commandsOf(name)) {
      const env = {KUBECONFIG: join(place, 'kubeconfig'), NO_COLOR: '1', FORCE_COLOR: undefined};
      const {exitCode, stdout, stderr} = await execa(process.execPath, [executable, ...args], {
        ...{cwd: place, env, stdin: 'ignore', reject: false},
      });
      expect({
        args,
        exitCode,
        stderr: stderr.replace('converged: 3 of 3 nodes', '').replace(/\s*^wrote \S+ \([^)]*\): .*$/m, ''),
        stdout,
      }).toMatchObject({
        exitCode: 0,
        stderr: '',
      });
      const file = args[args.indexOf('--output-file') + 1];
      expect(stdout !== '' || args.includes('github') || existsSync(join(place, file ?? ''))).toBe(true);
    }
  });

  /** Without the bindings. */
  function rolesOnly(): string {
    return read('rbac.yaml')
      .split('\n---\n')
      .filter(document => /^kind: (?:Cluster)?Role$/m.test(document))
      .join('\n---\n');
  }
});
