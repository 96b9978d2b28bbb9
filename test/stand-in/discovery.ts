import {resources} from './resources.ts';

/** What there is, as kubectl asks for it before anything else; null for any other path. */
export function discovery(path: string): object | null {
  if (path === '/api') return {kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: []};
  if (path === '/apis') return {kind: 'APIGroupList', apiVersion: 'v1', groups: [group('discovery.k8s.io'), group('authorization.k8s.io')]};
  if (path === '/api/v1') return resourceList('v1', '');
  const found = /^\/apis\/([^/]+)\/v1$/.exec(path);
  return found === null ? null : resourceList(`${found[1]}/v1`, found[1] ?? '');
}

function group(name: string): object {
  const version = {groupVersion: `${name}/v1`, version: 'v1'};
  return {name, versions: [version], preferredVersion: version};
}

function resourceList(groupVersion: string, groupName: string): object {
  const kept = resources.map(resource => ({...resource, verbs: ['create', 'delete', 'get', 'list']}));
  const list = [...kept, accessReview]
    .filter(resource => resource.group === groupName)
    .map(({plural, kind, namespaced, verbs}) => ({name: plural, singularName: kind.toLowerCase(), namespaced, kind, verbs}));
  return {kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources: list};
}

/** Asked for, and not kept. kubectl takes a group without resources for one that could not be asked, and asks again in each run. */
const accessReview = {
  ...{plural: 'selfsubjectaccessreviews', group: 'authorization.k8s.io', kind: 'SelfSubjectAccessReview', namespaced: false},
  verbs: ['create'],
};
