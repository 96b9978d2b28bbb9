import {type AccessScope, permissionsFor} from '../collect/access/permissions.ts';
import {reviewAccess} from '../collect/access/review-access.ts';
import type {AccessReport} from '../model/access.ts';
import type {ParsedConnectionFlags} from './connection-flags.ts';
import {openCluster} from './open-cluster.ts';

/** Asks the cluster of these flags for each permission. Rejects with an ApiError when it gives no answer. */
export async function reviewCluster(flags: ParsedConnectionFlags, scope: AccessScope, userAgent: string): Promise<AccessReport> {
  const {api, description, ...cluster} = openCluster(flags, userAgent);
  try {
    const permissions = await reviewAccess(api, permissionsFor(scope));
    return {cluster: description, transport: scope.transport, namespace: scope.namespace, permissions};
  } finally {
    cluster[Symbol.dispose]();
  }
}
