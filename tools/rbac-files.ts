import {agentPermissions, collectPermissions, permissionsFor, readResult} from '../src/collect/access/permissions.ts';
import {defaultAgentPlace} from '../src/collect/agents/agent-tokens.ts';
import {defaultDebugNamespace} from '../src/collect/transports/debug.ts';
import type {TransportName} from '../src/collect/transports/transports.ts';
import type {Permission} from '../src/model/permission.ts';
import {bindCommands, roleManifest} from '../src/render/access/access-report.ts';

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
  return new Map([
    ...ofTransports(),
    roleFile('agents', {
      permissions: collectPermissions(null, defaultAgentPlace.namespace, 'outside'),
      what: 'For "kubectl svc-trace check --agents" over all namespaces: no nodes are read, the agents in svc-trace are asked.',
      how: '"kubectl svc-trace access --agents -n NAMESPACE -o role" prints it for one namespace.',
    }),
    roleFile('agents-pod', {
      permissions: collectPermissions(null, defaultAgentPlace.namespace, 'pod'),
      what: 'The same for a pod, which shows agents a token of its own: deploy/components/gather gives it to its ServiceAccount.',
      how: '"svc-trace access --agents -n NAMESPACE -o role" in the pod prints it for one namespace.',
    }),
    roleFile('agents-reader', {
      permissions: [readResult],
      what: 'For whoever shows agents a token: deploy/agents gives it to the ServiceAccount svc-trace-reader.',
      how: 'It reads, and nothing else.',
    }),
    roleFile('agent', {
      permissions: agentPermissions(),
      what: 'For "svc-trace agent" itself: deploy/agents gives it to the ServiceAccount of the DaemonSet.',
      how: 'It reads, and asks who may get what it found.',
    }),
  ]);
}

interface RoleFile {
  readonly permissions: readonly Permission[];
  readonly what: string;
  readonly how: string;
}

function roleFile(name: string, {permissions, what, how}: RoleFile): readonly [name: string, text: string] {
  const lines = [
    `# ${what}`,
    `# Made by tools/rbac.ts. ${how}`,
    '# To give it to somebody (or --group=NAME, --serviceaccount=NAMESPACE:NAME):',
    ...bindCommands(permissions).map(command => `#   ${command}`),
    roleManifest(permissions),
  ];
  return [`${name}.yaml`, `${lines.join('\n')}\n`];
}

function ofTransports(): readonly (readonly [name: string, text: string])[] {
  return files.map(([name, transport, what]) =>
    roleFile(name, {
      permissions: permissionsFor({transport, namespace: null, debugNamespace: defaultDebugNamespace}),
      what: `For "kubectl svc-trace" over all namespaces that ${what}.`,
      how: `"kubectl svc-trace access --transport ${transport} -n NAMESPACE -o role" prints it for one namespace.`,
    }),
  );
}
