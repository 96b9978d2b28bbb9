import {readFileSync, writeFileSync} from 'node:fs';
import {dump} from 'js-yaml';
import {allowedBy} from '../collect/access/roles.ts';
import {capturePath} from '../fixtures.ts';
import type {ApiServer, LoggedRequest} from '../stand-in/api-server.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';
import type {AppliedObject} from './apply-server.ts';

/** A cluster whose only user has the Roles of these objects. */
export async function clusterOf(objects: readonly AppliedObject[], capture: string): Promise<ApiServer> {
  const roles = objects.filter(({kind}) => kind === 'Role' || kind === 'ClusterRole');
  const cluster = await startBundleCluster(capturePath(capture), {
    tokens: {job: {user: 'system:serviceaccount:svc-trace:svc-trace-check'}},
    allow: allowedBy(roles.map(role => dump(role)).join('---\n')),
  });
  writeFileSync(cluster.kubeconfig, readFileSync(cluster.kubeconfig, 'utf8').replace('admin-token', 'job'));
  return cluster;
}

/** What Roles grant and nobody asked for, as `verb group/resource`; what writes reports is not among it. */
export function unused(objects: readonly AppliedObject[], requests: readonly LoggedRequest[]): readonly string[] {
  const asked = new Set(requests.flatMap(({resource}) => (resource === null ? [] : wordsOf(resource))));
  const granted = objects.flatMap(object => ('rules' in object ? (object as unknown as {readonly rules: readonly Rule[]}).rules : []));
  return granted
    .filter(({apiGroups}) => !apiGroups.some(group => /reports|wgpolicy/.test(group)))
    .flatMap(({apiGroups: [group = ''], resources, verbs}) =>
      resources.flatMap(resource => verbs.map(verb => `${verb} ${group}/${resource}`)),
    )
    .filter(words => !asked.has(words));
}

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** The upgrade of an exec is a GET, and Kubernetes asks for "create" as well since 1.35. */
function wordsOf({verb, group, resource, subresource}: NonNullable<LoggedRequest['resource']>): readonly string[] {
  const target = `${group}/${subresource === '' ? resource : `${resource}/${subresource}`}`;
  return subresource === 'exec' ? [`get ${target}`, `create ${target}`] : [`${verb} ${target}`];
}
