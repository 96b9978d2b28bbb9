import {Flags} from '@oclif/core';
import {repeatable, namespaceNames} from './flags.ts';
import {defaultDebugImage, defaultDebugNamespace} from '../../collect/transports/debug.ts';
import {transportNames, transports} from '../../collect/transports/index.ts';
import {sshAddressTypes} from '../../collect/transports/ssh.ts';
import {defaultAgentPlace, readerAccount} from '../../collect/agents/agent-tokens.ts';
import type {ParsedAgentsFlags} from '../../run/open-cluster.ts';
import {wrongUse} from '../../run/wrong-use.ts';

const cluster = 'CLUSTER';

/** kubectl's connection flags. `-n` is one of the flags for Services. */
export const connectionFlags = {
  kubeconfig: Flags.string({description: 'path of the kubeconfig', helpValue: 'FILE', helpGroup: cluster}),
  context: Flags.string({description: 'context of the kubeconfig', helpValue: 'NAME', helpGroup: cluster}),
  cluster: Flags.string({description: 'cluster of the kubeconfig', helpValue: 'NAME', helpGroup: cluster}),
  user: Flags.string({description: 'user of the kubeconfig', helpValue: 'NAME', helpGroup: cluster}),
  server: Flags.string({char: 's', description: 'address of the API server', helpValue: 'URL', helpGroup: cluster}),
  token: Flags.string({description: 'bearer token', helpValue: 'TOKEN', helpGroup: cluster}),
  as: Flags.string({description: 'user to impersonate', helpValue: 'USER', helpGroup: cluster}),
  'as-group': Flags.string({description: 'group to impersonate (repeatable)', helpValue: 'GROUP', ...repeatable, helpGroup: cluster}),
  'as-uid': Flags.string({description: 'UID to impersonate', helpValue: 'UID', helpGroup: cluster}),
  'as-user-extra': Flags.string({
    description: 'extra of the user to impersonate (repeatable)',
    helpValue: 'KEY=VALUE',
    ...repeatable,
    helpGroup: cluster,
  }),
  'certificate-authority': Flags.string({description: "certificate of the API server's authority", helpValue: 'FILE', helpGroup: cluster}),
  'client-certificate': Flags.string({description: 'client certificate', helpValue: 'FILE', helpGroup: cluster}),
  'client-key': Flags.string({description: 'key of the client certificate', helpValue: 'FILE', helpGroup: cluster}),
  'insecure-skip-tls-verify': Flags.boolean({description: "do not check the API server's certificate", allowNo: true, helpGroup: cluster}),
  'tls-server-name': Flags.string({description: "name that the API server's certificate must have", helpValue: 'NAME', helpGroup: cluster}),
  'proxy-url': Flags.string({description: 'proxy to the API server', helpValue: 'URL', helpGroup: cluster}),
  'request-timeout': Flags.string({
    description: 'how long a single request may take, such as 1s or 2m; 0 for no limit',
    helpValue: 'DURATION',
    default: '0',
    helpGroup: cluster,
  }),
};

const transport = 'TRANSPORT';
const choices = Object.entries(transports).map(([name, {summary}]) => `${name}: ${summary}`);

/** How nodes are reached and read. */
export const transportFlags = {
  transport: Flags.string({
    description: `how to reach the nodes; auto means exec, which creates nothing (${choices.join('; ')})`,
    options: [...transportNames],
    default: 'auto',
    helpGroup: transport,
  }),
  concurrency: Flags.integer({description: 'how many nodes are read at once', min: 1, default: 16, helpValue: 'N', helpGroup: transport}),
  'node-timeout': Flags.string({
    description: 'how long one node may take, such as 30s or 2m',
    default: '1m',
    helpValue: 'DURATION',
    helpGroup: transport,
  }),
  'ssh-user': Flags.string({description: 'user to log in as', helpValue: 'USER', helpGroup: transport}),
  'ssh-port': Flags.integer({description: "port of the nodes' ssh", min: 1, max: 65_535, helpValue: 'PORT', helpGroup: transport}),
  'ssh-option': Flags.string({
    description: 'option for ssh, as in ssh_config: ProxyJump=bastion (repeatable)',
    ...repeatable,
    helpValue: 'OPTION',
    helpGroup: transport,
  }),
  'ssh-address': Flags.string({
    description: "which of the Node's addresses to connect to",
    options: [...sshAddressTypes],
    helpGroup: transport,
  }),
  sudo: Flags.boolean({description: 'run the commands with sudo (transports ssh and local)', helpGroup: transport}),
  'debug-image': Flags.string({
    description: `image of debug pods (default ${defaultDebugImage})`,
    helpValue: 'IMAGE',
    helpGroup: transport,
  }),
  'debug-namespace': Flags.string({
    description: `namespace of debug pods (default ${defaultDebugNamespace})`,
    parse: async text => namespaceNames(text),
    helpValue: 'NAMESPACE',
    helpGroup: transport,
  }),
  'image-pull-secret': Flags.string({description: 'Secret to pull the image of debug pods with', helpValue: 'NAME', helpGroup: transport}),
};

/** Flags to collect results from agents instead of reading nodes. */
export const agentsFlags = {
  agents: Flags.boolean({
    description: 'collect the results of the agents on the nodes (svc-trace agent) instead of reading the nodes',
    helpGroup: 'AGENTS',
  }),
  'agents-namespace': Flags.string({
    description: 'namespace of the agents',
    parse: async text => namespaceNames(text),
    default: defaultAgentPlace.namespace,
    helpValue: 'NAMESPACE',
    helpGroup: 'AGENTS',
  }),
  'agents-selector': Flags.string({
    description: "labels of the agents' pods",
    default: defaultAgentPlace.selector,
    helpValue: 'SELECTOR',
    helpGroup: 'AGENTS',
  }),
  'agents-token-file': Flags.string({
    description: `token for the agents, read again for each request. Default: in a pod its own, otherwise one that is requested for the ServiceAccount ${readerAccount}`,
    helpValue: 'FILE',
    helpGroup: 'AGENTS',
  }),
};

/** Throws a CLIError (exit 2) for flags about reading nodes: they have no effect with agents. */
export function refuseBesideAgents(flags: ParsedAgentsFlags & Readonly<Record<string, unknown>>): void {
  if (!flags.agents) return;
  const given = ofReading.find(name => flags[name] !== undefined);
  const other =
    given ??
    (flags['full'] === true ? 'full' : undefined) ??
    (flags['transport'] === undefined || flags['transport'] === 'auto' ? undefined : 'transport');
  if (other === undefined) return;
  const why = ofKubeProxy.includes(other) ? 'set it where the agents are started' : 'with --agents no node is read';
  throw wrongUse(`--${other} has no effect with --agents: ${why}`);
}

const ofKubeProxy: readonly string[] = [
  'proxy-mode',
  'cluster-cidr',
  'detect-local-mode',
  'masquerade-all',
  'masquerade-bit',
  'nodeport-addresses',
  'kube-proxy-version',
  'zone',
];

const ofReading: readonly string[] = [
  ...ofKubeProxy,
  'from',
  'sudo',
  'ssh-user',
  'ssh-port',
  'ssh-option',
  'ssh-address',
  'debug-image',
  'debug-namespace',
  'image-pull-secret',
];
