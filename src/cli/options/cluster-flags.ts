import {Flags} from '@oclif/core';
import {inGroup, namespaceNames, repeatable} from './flags.ts';
import {defaultDebugImage, defaultDebugNamespace} from '../../collect/transports/debug.ts';
import {transportNames, transports} from '../../collect/transports/transports.ts';
import {sshAddressTypes} from '../../collect/transports/ssh.ts';
import {defaultAgentPlace, readerAccount} from '../../collect/agents/agent-tokens.ts';
import type {ParsedAgentsFlags} from '../../run/open-cluster.ts';
import {wrongUse} from '../../run/wrong-use.ts';

/** kubectl's connection flags. `-n` is one of the flags for Services. */
export const connectionFlags = inGroup('CLUSTER', {
  kubeconfig: Flags.string({description: 'path of the kubeconfig', helpValue: 'FILE'}),
  context: Flags.string({description: 'context of the kubeconfig', helpValue: 'NAME'}),
  cluster: Flags.string({description: 'cluster of the kubeconfig', helpValue: 'NAME'}),
  user: Flags.string({description: 'user of the kubeconfig', helpValue: 'NAME'}),
  server: Flags.string({char: 's', description: 'address of the API server', helpValue: 'URL'}),
  token: Flags.string({description: 'bearer token', helpValue: 'TOKEN'}),
  as: Flags.string({description: 'user to impersonate', helpValue: 'USER'}),
  'as-group': Flags.string({description: 'group to impersonate (repeatable)', helpValue: 'GROUP', ...repeatable}),
  'as-uid': Flags.string({description: 'UID to impersonate', helpValue: 'UID'}),
  'as-user-extra': Flags.string({description: 'extra of the user to impersonate (repeatable)', helpValue: 'KEY=VALUE', ...repeatable}),
  'certificate-authority': Flags.string({description: "certificate of the API server's authority", helpValue: 'FILE'}),
  'client-certificate': Flags.string({description: 'client certificate', helpValue: 'FILE'}),
  'client-key': Flags.string({description: 'key of the client certificate', helpValue: 'FILE'}),
  'insecure-skip-tls-verify': Flags.boolean({description: "do not check the API server's certificate", allowNo: true}),
  'tls-server-name': Flags.string({description: "name that the API server's certificate must have", helpValue: 'NAME'}),
  'proxy-url': Flags.string({description: 'proxy to the API server', helpValue: 'URL'}),
  'request-timeout': Flags.string({
    description: 'how long a single request may take, such as 1s or 2m; 0 for no limit',
    helpValue: 'DURATION',
    default: '0',
  }),
});

const choices = Object.entries(transports).map(([name, {summary}]) => `${name}: ${summary}`);

/** How nodes are reached and read. */
export const transportFlags = inGroup('TRANSPORT', {
  transport: Flags.string({
    description: `how to reach the nodes; auto means exec, which creates nothing (${choices.join('; ')})`,
    options: [...transportNames],
    default: 'auto',
  }),
  concurrency: Flags.integer({description: 'how many nodes are read at once', min: 1, default: 16, helpValue: 'N'}),
  'node-timeout': Flags.string({description: 'how long one node may take, such as 30s or 2m', default: '1m', helpValue: 'DURATION'}),
  'ssh-user': Flags.string({description: 'user to log in as', helpValue: 'USER'}),
  'ssh-port': Flags.integer({description: "port of the nodes' ssh", min: 1, max: 65_535, helpValue: 'PORT'}),
  'ssh-option': Flags.string({
    description: 'option for ssh, as in ssh_config: ProxyJump=bastion (repeatable)',
    ...repeatable,
    helpValue: 'OPTION',
  }),
  'ssh-address': Flags.string({description: "which of the Node's addresses to connect to", options: [...sshAddressTypes]}),
  sudo: Flags.boolean({description: 'run the commands with sudo (transports ssh and local)'}),
  'debug-image': Flags.string({description: `image of debug pods (default ${defaultDebugImage})`, helpValue: 'IMAGE'}),
  'debug-namespace': Flags.string({
    description: `namespace of debug pods (default ${defaultDebugNamespace})`,
    parse: async text => namespaceNames(text),
    helpValue: 'NAMESPACE',
  }),
  'image-pull-secret': Flags.string({description: 'Secret to pull the image of debug pods with', helpValue: 'NAME'}),
});

/** Flags to collect results from agents instead of reading nodes. */
export const agentsFlags = inGroup('AGENTS', {
  agents: Flags.boolean({description: 'collect the results of the agents on the nodes (svc-trace agent) instead of reading the nodes'}),
  'agents-namespace': Flags.string({
    description: 'namespace of the agents',
    parse: async text => namespaceNames(text),
    default: defaultAgentPlace.namespace,
    helpValue: 'NAMESPACE',
  }),
  'agents-selector': Flags.string({description: "labels of the agents' pods", default: defaultAgentPlace.selector, helpValue: 'SELECTOR'}),
  'agents-token-file': Flags.string({
    description: `token for the agents, read again for each request. Default: in a pod its own, otherwise one that is requested for the ServiceAccount ${readerAccount}`,
    helpValue: 'FILE',
  }),
});

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
