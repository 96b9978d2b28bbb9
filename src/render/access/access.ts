import {type AccessReport, missing, type ReviewedPermission, resourceText} from '../../model/access.ts';
import {bindCommands, roleManifest} from './access-roles.ts';
import {escapeText} from '../escape.ts';
import {plainTable} from '../table/plain-table.ts';
import {schemaVersion, toJson} from '../json.ts';
import {wrapLines} from '../wrap.ts';
import {plural} from '../../model/text/plural.ts';
import type {RenderOptions} from '../renderer.ts';
import {type Style, styleOf} from '../style.ts';
import {toYaml} from '../yaml.ts';

type AccessRenderer = (report: AccessReport, options: Pick<RenderOptions, 'color' | 'width'>) => string;

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
    ...{schemaVersion, cluster, transport, namespace, allowed: missing(report).length === 0},
    permissions: permissions.map(
      ({verb, group, resource, subresource, name, namespace: where, allowed, byName, needed, purpose, without}) => ({
        ...{verb, group, resource, subresource, name, namespace: where, allowed, byName, needed, purpose, without},
      }),
    ),
    role: roleManifest(permissions),
  };
}

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
function purposeText({purpose, without, allowed, byName}: ReviewedPermission): string {
  if (byName === undefined) return allowed ? purpose : `${purpose}; without it ${without}`;
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
