import {type AccessScope, permissionsFor} from '../collect/access/permissions.ts';
import {reviewAccess} from '../collect/access/review-access.ts';
import type {AccessReport} from '../model/access.ts';
import type {ParsedConnectionFlags} from './options/connection.ts';
import {openCluster} from './open-cluster.ts';

interface AccessFlags extends ParsedConnectionFlags {
  readonly 'all-namespaces': boolean;
}

/** Asks the cluster for each permission. Rejects with an ApiError if there is no answer. */
export async function reviewCluster(flags: AccessFlags, by: Omit<AccessScope, 'namespace'>, userAgent: string): Promise<AccessReport> {
  const {api, description, ...cluster} = openCluster(flags, userAgent);
  try {
    const namespace = flags['all-namespaces'] ? null : cluster.namespace;
    const asker = (await api.podToken()) === null ? 'outside' : 'pod';
    const permissions = await reviewAccess(api, permissionsFor({...by, namespace, asker}));
    return {cluster: description, transport: by.agentsNamespace === undefined ? by.transport : 'agents', namespace, permissions};
  } finally {
    cluster[Symbol.dispose]();
  }
}
