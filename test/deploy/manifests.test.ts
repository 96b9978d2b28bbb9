import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {Parser} from '@oclif/core';
import {describe, expect, vi} from 'vitest';
import {execa} from 'execa';
import {dump} from 'js-yaml';
import packageJson from '../../package.json' with {type: 'json'};
import {commandModules} from '../../src/cli/command-modules.ts';
import {kubectl, testWith} from '../require.ts';
import {type AppliedKind, type AppliedObject, startApplyServer} from './apply-server.ts';
import {built, type Overlay, overlays} from './overlays.ts';
import {type Container, containersOf, podsOf} from './pods.ts';

const kinds: readonly AppliedKind[] = [
  {apiVersion: 'v1', kind: 'Namespace', plural: 'namespaces', namespaced: false},
  {apiVersion: 'v1', kind: 'ServiceAccount', plural: 'serviceaccounts', namespaced: true},
  {apiVersion: 'v1', kind: 'Secret', plural: 'secrets', namespaced: true},
  {apiVersion: 'v1', kind: 'ConfigMap', plural: 'configmaps', namespaced: true},
  {apiVersion: 'v1', kind: 'ResourceQuota', plural: 'resourcequotas', namespaced: true},
  {apiVersion: 'apps/v1', kind: 'DaemonSet', plural: 'daemonsets', namespaced: true},
  {apiVersion: 'batch/v1', kind: 'CronJob', plural: 'cronjobs', namespaced: true},
  {apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', plural: 'networkpolicies', namespaced: true},
  {apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', plural: 'roles', namespaced: true},
  {apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'RoleBinding', plural: 'rolebindings', namespaced: true},
  {apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', plural: 'clusterroles', namespaced: false},
  {apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRoleBinding', plural: 'clusterrolebindings', namespaced: false},
  {apiVersion: 'monitoring.coreos.com/v1', kind: 'PodMonitor', plural: 'podmonitors', namespaced: true},
  {apiVersion: 'monitoring.coreos.com/v1', kind: 'PrometheusRule', plural: 'prometheusrules', namespaced: true},
];

/** The paths that a real kubectl writes to when it applies an overlay. Rejects when kubectl has something to complain of. */
async function applied(overlay: Overlay): Promise<readonly string[]> {
  await using server = await startApplyServer(kinds);
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-apply-overlay-'));
  try {
    const file = join(folder, 'all.yaml');
    writeFileSync(file, (await built(overlay)).map(object => dump(object)).join('---\n'));
    await execa(kubectl, ['apply', '--kubeconfig', server.kubeconfig, '--server-side', '--validate=false', '-f', file]);
    return [...server.applied.keys()];
  } finally {
    rmSync(folder, {recursive: true});
  }
}

interface Binding {
  readonly metadata: {readonly namespace?: string};
  readonly roleRef: {readonly kind: string; readonly name: string};
  readonly subjects: readonly {readonly kind: string; readonly name: string; readonly namespace: string}[];
}

function keyOf({kind, metadata}: AppliedObject): string {
  return `${kind} ${metadata.namespace ?? ''}/${metadata.name}`;
}

describe.each(Object.entries(overlays))('%s', (_, overlay) => {
  let objects: readonly AppliedObject[] = [];
  const withObjects = (title: string, run: () => Promise<void>) =>
    testWith(['kubectl'], title, async () => {
      objects = await built(overlay);
      await run();
    });

  withObjects('has a namespace first, and no object twice', async () => {
    expect(objects[0]).toMatchObject({kind: 'Namespace', metadata: {name: 'svc-trace'}});
    expect(new Set(objects.map(keyOf)).size).toBe(objects.length);
  });

  withObjects('every binding gives a Role that is there to a ServiceAccount that is there', async () => {
    const keys = objects.map(keyOf);
    const bindings = objects.filter(({kind}) => kind.endsWith('Binding')) as unknown as readonly (Binding & AppliedObject)[];
    expect(bindings.length).toBeGreaterThan(0);
    for (const {metadata, roleRef, subjects} of bindings) {
      const namespace = roleRef.kind === 'ClusterRole' ? '' : (metadata.namespace ?? '');
      expect(keys).toContain(`${roleRef.kind} ${namespace}/${roleRef.name}`);
      for (const subject of subjects) expect(keys).toContain(`${subject.kind} ${subject.namespace}/${subject.name}`);
    }
  });

  withObjects('every pod runs as a ServiceAccount that is there, and takes no more than it needs', async () => {
    const keys = objects.map(keyOf);
    for (const pod of podsOf(objects)) {
      expect(keys).toContain(`ServiceAccount svc-trace/${pod.serviceAccountName}`);
      expect(pod.securityContext).toMatchObject({seccompProfile: {type: 'RuntimeDefault'}});
      if (pod.hostNetwork !== true) expect(pod.securityContext).toMatchObject({runAsNonRoot: true});
      for (const {securityContext, resources} of containersOf(pod)) {
        const add = pod.hostNetwork === true ? {add: ['NET_ADMIN', 'NET_RAW']} : {};
        expect(securityContext).toMatchObject({allowPrivilegeEscalation: false, readOnlyRootFilesystem: true});
        expect(securityContext['capabilities']).toEqual({drop: ['ALL'], ...add});
        expect(Object.keys(resources)).toEqual(['limits', 'requests']);
      }
    }
  });

  withObjects('the namespace lets its pods in', async () => {
    const privileged = podsOf(objects).some(({hostNetwork}) => hostNetwork === true);
    const label = {'pod-security.kubernetes.io/enforce': privileged ? 'privileged' : 'restricted'};
    expect(objects[0]).toMatchObject({metadata: {labels: label}});
  });

  withObjects('the command lines are such as svc-trace understands', async () => {
    const containers = podsOf(objects).flatMap(containersOf);
    for (const {name} of containers.flatMap(({env = []}) => env)) vi.stubEnv(name, 'node-a');
    const lines = containers.flatMap(commandLine);
    expect(lines.length).toBeGreaterThan(0);
    for (const [name = '', ...args] of lines) await parse(name, args);
    vi.unstubAllEnvs();
  });

  withObjects('images of svc-trace are of this version', async () => {
    const images = podsOf(objects)
      .flatMap(containersOf)
      .map(({image}) => image);
    for (const image of images.filter(name => name.includes('svc-trace')))
      expect(image).toMatch(new RegExp(`^ghcr\\.io/svc-trace/svc-trace(?:-agent)?:${packageJson.version.replaceAll('.', '\\.')}$`));
  });

  withObjects('a real kubectl applies it', async () => {
    const paths = await applied(overlay);
    expect(paths.length).toBe(objects.length);
  });
});

/** What the container says to svc-trace, also by way of a shell; none if it runs another program. */
function commandLine({image, command, args = []}: Container): readonly (readonly string[])[] {
  if (!image.includes('svc-trace')) return [];
  if (command === undefined) return [args];
  return command.join(' ').includes('svc-trace "$@"') ? [args] : [];
}

/** Rejects what the command would call wrong use. */
async function parse(name: string, args: readonly string[]): Promise<unknown> {
  const loaded = await commandModules[name]?.();
  if (loaded === undefined) throw new Error(`there is no command ${name}`);
  const {flags, args: positional, strict} = loaded.default;
  // The folders of volumes are not on this machine.
  const here = args.map(text => text.replace(/^(--output-file=).*/, `$1${join(tmpdir(), 'report')}`));
  return Parser.parse(here, {flags, args: positional, strict});
}
