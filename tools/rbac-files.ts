import {permissionsFor} from '../src/collect/access/permissions.ts';
import {defaultDebugNamespace} from '../src/collect/transports/debug.ts';
import type {TransportName} from '../src/collect/transports/index.ts';
import {bindCommands, roleManifest} from '../src/render/access-roles.ts';

const files: readonly (readonly [name: string, transport: TransportName, what: string])[] = [
  ['read-only', 'ssh', 'reads the API only: nodes are reached by --transport ssh, docker or local'],
  [
    'exec',
    'exec',
    'reaches nodes by --transport exec (auto): a shell in pods of kube-system. Whoever has that is an administrator of the nodes',
  ],
  [
    'debug',
    'debug',
    'reaches nodes by --transport debug: privileged pods in kube-system. Whoever may make these is an administrator of the nodes',
  ],
];

/** The name and the text of each file of docs/rbac. */
export function rbacFiles(): ReadonlyMap<string, string> {
  return new Map(
    files.map(([name, transport, what]) => {
      const permissions = permissionsFor({transport, namespace: null, debugNamespace: defaultDebugNamespace});
      const lines = [
        `# For "kubectl svc-trace" over all namespaces that ${what}.`,
        `# Made by tools/rbac.ts. "kubectl svc-trace access --transport ${transport} -n NAMESPACE -o role" prints it for one namespace.`,
        '# To give it to somebody (or --group=NAME, --serviceaccount=NAMESPACE:NAME):',
        ...bindCommands(permissions).map(command => `#   ${command}`),
        roleManifest(permissions),
      ];
      return [`${name}.yaml`, `${lines.join('\n')}\n`];
    }),
  );
}
