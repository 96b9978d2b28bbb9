import {dump} from 'js-yaml';
import {type AccessReport, isUrl, missing, type Permission, resourceText, type ReviewedPermission} from '../../model/permission.ts';
import {groupBy} from '../../model/lists.ts';
import {plural} from '../../model/text.ts';
import {schemaVersion, toJson, toYaml} from '../json.ts';
import {type RenderOptions, escapeText, type Style, styleOf, wrapLines, plainTable} from '../renderer.ts';

type AccessRenderer = (report: AccessReport, options: Pick<RenderOptions, 'color' | 'width'>) => string;

const roleName = 'svc-trace';

/** The output formats of `access`. */
export const accessRenderers = {
  table: (report, options) => accessTable(report, styleOf(options.color), options.width),
  json: report => toJson(accessObject(report)),
  yaml: report => toYaml(accessObject(report)),
  role: report => roleManifest(report.permissions),
} as const satisfies Readonly<Record<string, AccessRenderer>>;

function accessObject(report: AccessReport): object {
  const {cluster, transport, namespace, permissions} = report;
  return {
    schemaVersion,
    cluster,
    transport,
    namespace,
    allowed: missing(report).length === 0,
    permissions: permissions.map(permission => Object.fromEntries(printed.map(field => [field, permission[field]]))),
    role: roleManifest(permissions),
  };
}

/** Of a permission, in the order of JSON. */
const printed = 'verb group resource subresource name namespace allowed byName needed purpose without'.split(
  ' ',
) as readonly (keyof ReviewedPermission)[];

function accessTable(report: AccessReport, style: Style, width: number): string {
  const {permissions} = report;
  const required = permissions.filter(({needed}) => needed);
  const optional = permissions.filter(({needed}) => !needed);
  return [
    wrapLines(answer(report, style), width),
    section('REQUIRED', required, style.red),
    ...(optional.length === 0 ? [] : [section('OPTIONAL', optional, style.yellow)]),
    ...(permissions.some(({allowed}) => !allowed) ? [howToGrant(permissions, width)] : []),
  ].join('\n\n');

  function section(title: string, rows: readonly ReviewedPermission[], no: (text: string) => string): string {
    return plainTable(
      [title, 'RESOURCE', 'NAMESPACE', 'ALLOWED', 'FOR'],
      rows.map(permission => [
        permission.verb,
        resourceText(permission),
        permission.namespace ?? '(all)',
        permission.allowed ? style.green('yes') : no(permission.byName === undefined ? 'no' : 'in part'),
        purposeText(permission),
      ]),
      width,
    );
  }
}

/** A permission can be limited to names of objects. */
function purposeText({purpose, without, opens, allowed, byName}: ReviewedPermission): string {
  if (byName === undefined)
    return allowed ? purpose : `${purpose}; without it ${without}${opens === undefined ? '' : `; it opens ${opens}`}`;
  const {allowed: names, asked} = byName;
  if (allowed) return `${purpose}; allowed by name (${asked} of ${asked} names)`;
  const listed = names.length > maxNames ? `${names.slice(0, maxNames).join(', ')}, …` : names.join(', ');
  return `${purpose}; allowed for ${names.length} of ${asked} names (${escapeText(listed)}); without the others ${without}`;
}

const maxNames = 4;

/** The numbers are those of the two tables below. */
function answer(report: AccessReport, style: Style): string {
  const {cluster, transport, permissions} = report;
  const what = escapeText(`${transport === 'agents' ? '--agents' : `--transport ${transport}`} (${cluster})`);
  const required = permissions.filter(({needed}) => needed).length;
  const lost = permissions.filter(({needed, allowed}) => !needed && !allowed).length;
  const optional =
    lost === 0
      ? ''
      : style.yellow(` ${lost} of ${permissions.length - required} optional permissions ${lost === 1 ? 'is' : 'are'} missing.`);
  const needed = missing(report);
  if (needed.length === 0) return style.green(`Allowed: ${plural(required, 'required permission')} for ${what}.`) + optional;
  const names = needed.map(({verb, ...rest}) => `${verb} ${resourceText(rest)}`).join(', ');
  const are = needed.length === 1 ? 'is' : 'are';
  return style.red(`${needed.length} of ${required} required permissions ${are} missing for ${what}: ${names}.`) + optional;
}

/** All permissions, not only missing ones: a Role that is applied again must not remove what the first one granted. */
function howToGrant(permissions: readonly ReviewedPermission[], width: number): string {
  return [
    wrapLines('An administrator can grant the permissions: "-o role" prints this for "kubectl apply -f -".', width),
    '',
    roleManifest(permissions),
    '',
    'Then bind it to a user (or --group=NAME, --serviceaccount=NAMESPACE:NAME):',
    ...bindCommands(permissions).map(command => `  ${command}`),
  ].join('\n');
}

/**
 * The ClusterRole and Roles that grant these permissions, as YAML for `kubectl apply -f -`. What opens more than its purpose is left out: a
 * comment says how to grant it.
 */
export function roleManifest(permissions: readonly Permission[]): string {
  const comments = permissions.map(permission => howToOpen(permission)).filter(comment => comment !== null);
  const documents = roles(permissions).map(role => dump(role, {lineWidth: -1, noRefs: true, flowLevel: 3}).trimEnd());
  return [...comments, documents.join('\n---\n')].join('\n');
}

function howToOpen(permission: Permission): string | null {
  const {verb, opens, purpose} = permission;
  if (opens === undefined) return null;
  const name = `${roleName}-${target(permission).replace('/', '-')}`;
  return [
    `# Left out: ${verb} ${target(permission)} (${purpose}). It opens ${opens}. To grant it too:`,
    `#   kubectl create clusterrole ${name} --verb=${verb} --resource=${target(permission)}`,
    `#   kubectl create clusterrolebinding ${name} --clusterrole=${name} --user=NAME`,
  ].join('\n');
}

/** The commands that bind these Roles to a user. */
export function bindCommands(permissions: readonly Permission[]): readonly string[] {
  return roles(permissions).map(({kind, metadata: {namespace}}) =>
    kind === 'ClusterRole'
      ? `kubectl create clusterrolebinding ${roleName} --clusterrole=${roleName} --user=NAME`
      : `kubectl create rolebinding ${roleName} --namespace=${namespace} --role=${roleName} --user=NAME`,
  );
}

interface Role {
  readonly apiVersion: string;
  readonly kind: 'ClusterRole' | 'Role';
  readonly metadata: {readonly name: string; readonly namespace?: string};
  readonly rules: readonly PolicyRule[];
}

type PolicyRule =
  | {
      readonly apiGroups: readonly string[];
      readonly resources: readonly string[];
      readonly resourceNames?: readonly string[];
      readonly verbs: readonly string[];
    }
  | {readonly nonResourceURLs: readonly string[]; readonly verbs: readonly string[]};

/** The ClusterRole first. A permission that it grants is not granted again in a namespace. */
function roles(all: readonly Permission[]): readonly Role[] {
  const permissions = all.filter(({opens}) => opens === undefined);
  const everywhere = permissions.filter(({namespace}) => namespace === null);
  const namespaces = [...new Set(permissions.flatMap(({namespace}) => namespace ?? []))].sort();
  const inNamespaces = namespaces.map(namespace => ({
    namespace,
    own: permissions.filter(permission => permission.namespace === namespace && !everywhere.some(other => covers(other, permission))),
  }));
  const kinds = {apiVersion: 'rbac.authorization.k8s.io/v1'};
  return [
    ...(everywhere.length === 0 ? [] : [{...kinds, kind: 'ClusterRole' as const, metadata: {name: roleName}, rules: rulesOf(everywhere)}]),
    ...inNamespaces
      .filter(({own}) => own.length > 0)
      .map(({namespace, own}) => ({...kinds, kind: 'Role' as const, metadata: {name: roleName, namespace}, rules: rulesOf(own)})),
  ];
}

function covers(one: Permission, other: Permission): boolean {
  return one.verb === other.verb && one.group === other.group && target(one) === target(other) && one.name === undefined;
}

/** As a Role spells it. */
function target({resource, subresource}: Permission): string {
  return subresource === undefined ? resource : `${resource}/${subresource}`;
}

/** One rule for all with the same verbs. */
function rulesOf(permissions: readonly Permission[]): readonly PolicyRule[] {
  const objects = groupBy(permissions, permission => [permission.group, target(permission), permission.name].join(' '));
  return groupBy(objects, alikeIn).map(alike => {
    const all = alike.flat();
    const verbs = distinct(all.map(({verb}) => verb));
    if (all.some(({resource}) => isUrl(resource))) return {nonResourceURLs: distinct(all.map(target)), verbs};
    const names = distinct(all.flatMap(({name}) => name ?? []));
    return {
      apiGroups: distinct(all.map(({group}) => group)),
      resources: distinct(all.map(target)),
      ...(names.length === 0 ? {} : {resourceNames: names}),
      verbs,
    };
  });
}

/** Names belong to one resource: in a rule with several resources they would restrict all of them. */
function alikeIn(permissions: readonly Permission[]): string {
  const [first] = permissions;
  const named = first?.name === undefined ? '' : target(first);
  const kind = isUrl(first?.resource ?? '') ? 'url' : first?.group;
  return [kind, distinct(permissions.map(({verb}) => verb)), named].join(' ');
}

function distinct(words: readonly string[]): readonly string[] {
  return [...new Set(words)].sort();
}
