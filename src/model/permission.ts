/** A request to the API server that a run needs permission for. */
export interface Permission {
  readonly verb: 'get' | 'list' | 'watch' | 'create' | 'delete';
  /** Empty for the core group and for a non-resource URL. */
  readonly group: string;
  /** A non-resource URL starts with a slash: `/result`. */
  readonly resource: string;
  readonly subresource?: string;
  /** Null for all namespaces, and for cluster-scoped resources. */
  readonly namespace: string | null;
  /** Set if only one object is read. */
  readonly name?: string;
  /** The purpose, as text. */
  readonly purpose: string;
  /** The consequence of a missing permission. */
  readonly without: string;
  /** Without it nothing can be checked, or no node can. */
  readonly needed: boolean;
  /** What it opens beyond its purpose: Roles leave it out, for who wants it to grant it by itself. */
  readonly opens?: string;
}

/** A permission with the API server's answer. */
export interface ReviewedPermission extends Permission {
  readonly allowed: boolean;
  /** Where the resource as a whole is refused, and single objects of it may be allowed. */
  readonly byName?: {
    /** The names of those that are allowed. */
    readonly allowed: readonly string[];
    readonly asked: number;
  };
}

export interface AccessReport {
  /** The cluster, as text. */
  readonly cluster: string;
  /** `agents` if no nodes are read. */
  readonly transport: string;
  /** Null for all. */
  readonly namespace: string | null;
  readonly permissions: readonly ReviewedPermission[];
}

/** `pods/exec`, `endpointslices.discovery.k8s.io`, `configmaps/kube-proxy`, `/result`: as in `kubectl auth can-i`. */
export function resourceText({
  group,
  resource,
  subresource,
  name,
}: Pick<Permission, 'group' | 'resource' | 'subresource' | 'name'>): string {
  const plural = group === '' ? resource : `${resource}.${group}`;
  return [plural, name, subresource].filter(part => part !== undefined).join('/');
}

/** Whether the permission is for a non-resource URL. */
export function isUrl(resource: string): boolean {
  return resource.startsWith('/');
}

/** The required permissions that are missing. */
export function missing({permissions}: AccessReport): readonly ReviewedPermission[] {
  return permissions.filter(({needed, allowed}) => needed && !allowed);
}
