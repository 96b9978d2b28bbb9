import {Errors, Flags} from '@oclif/core';
import {defaultAgentPlace, readerAccount} from '../../collect/agents/agent-tokens.ts';
import type {ParsedAgentsFlags} from '../../run/options/connection.ts';
import {namespaceNames} from './flags.ts';

const helpGroup = 'AGENTS';

/** Flags to collect results from agents instead of reading nodes. */
export const agentsFlags = {
  agents: Flags.boolean({
    description: 'collect the results of the agents on the nodes (svc-trace agent) instead of reading the nodes',
    helpGroup,
  }),
  'agents-namespace': Flags.string({
    description: 'namespace of the agents',
    parse: async text => namespaceNames(text),
    default: defaultAgentPlace.namespace,
    helpValue: 'NAMESPACE',
    helpGroup,
  }),
  'agents-selector': Flags.string({
    description: "labels of the agents' pods",
    default: defaultAgentPlace.selector,
    helpValue: 'SELECTOR',
    helpGroup,
  }),
  'agents-token-file': Flags.string({
    description: `token for the agents, read again for each request. Default: in a pod its own, otherwise one that is requested for the ServiceAccount ${readerAccount}`,
    helpValue: 'FILE',
    helpGroup,
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
  throw new Errors.CLIError(`--${other} has no effect with --agents: ${why}`, {exit: 2});
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
