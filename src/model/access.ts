/** Something that a run asks of the API server. */
export interface Permission {
  readonly verb: 'get' | 'list' | 'watch' | 'create' | 'delete';
  /** Empty for the core group. */
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  /** Null for all namespaces, and for what is in none. */
  readonly namespace: string | null;
  /** Where only one object is asked for. */
  readonly name?: string;
  /** What it is for. */
  readonly purpose: string;
  /** What is lost without it. */
  readonly without: string;
  /** Without it there is no answer, or not for any node. */
  readonly needed: boolean;
}

/** A permission with the API server's word on it. */
export interface ReviewedPermission extends Permission {
  readonly allowed: boolean;
}

export interface AccessReport {
  /** Which cluster, in words. */
  readonly cluster: string;
  /** `agents` where no nodes are read. */
  readonly transport: string;
  /** Null for all. */
  readonly namespace: string | null;
  readonly permissions: readonly ReviewedPermission[];
}

/** `pods/exec`, `endpointslices.discovery.k8s.io`, `configmaps/kube-proxy`: as `kubectl auth can-i` has it. */
export function resourceText({
  group,
  resource,
  subresource,
  name,
}: Pick<Permission, 'group' | 'resource' | 'subresource' | 'name'>): string {
  const plural = group === '' ? resource : `${resource}.${group}`;
  return [plural, subresource ?? name].filter(part => part !== undefined).join('/');
}

/** The needed ones that are not allowed. */
export function missing({permissions}: AccessReport): readonly ReviewedPermission[] {
  return permissions.filter(({needed, allowed}) => needed && !allowed);
}
