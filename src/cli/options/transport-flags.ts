import {Flags} from '@oclif/core';
import {defaultDebugImage, defaultDebugNamespace} from '../../collect/transports/debug.ts';
import {transportNames, transports} from '../../collect/transports/index.ts';
import {sshAddressTypes} from '../../collect/transports/ssh.ts';
import {namespaceNames, repeatable} from './flags.ts';

const helpGroup = 'TRANSPORT';
const choices = Object.entries(transports).map(([name, {summary}]) => `${name}: ${summary}`);

/** How nodes are reached and read. */
export const transportFlags = {
  transport: Flags.string({
    description: `how to reach the nodes; auto means exec, which creates nothing (${choices.join('; ')})`,
    options: [...transportNames],
    default: 'auto',
    helpGroup,
  }),
  concurrency: Flags.integer({description: 'how many nodes are read at once', min: 1, default: 16, helpValue: 'N', helpGroup}),
  'node-timeout': Flags.string({
    description: 'how long one node may take, such as 30s or 2m',
    default: '1m',
    helpValue: 'DURATION',
    helpGroup,
  }),
  'ssh-user': Flags.string({description: 'user to log in as', helpValue: 'USER', helpGroup}),
  'ssh-port': Flags.integer({description: "port of the nodes' ssh", min: 1, max: 65_535, helpValue: 'PORT', helpGroup}),
  'ssh-option': Flags.string({
    description: 'option for ssh, as in ssh_config: ProxyJump=bastion (repeatable)',
    ...repeatable,
    helpValue: 'OPTION',
    helpGroup,
  }),
  'ssh-address': Flags.string({description: "which of the Node's addresses to connect to", options: [...sshAddressTypes], helpGroup}),
  sudo: Flags.boolean({description: 'run the commands with sudo (transports ssh and local)', helpGroup}),
  'debug-image': Flags.string({description: `image of debug pods (default ${defaultDebugImage})`, helpValue: 'IMAGE', helpGroup}),
  'debug-namespace': Flags.string({
    description: `namespace of debug pods (default ${defaultDebugNamespace})`,
    parse: async text => namespaceNames(text),
    helpValue: 'NAMESPACE',
    helpGroup,
  }),
  'image-pull-secret': Flags.string({description: 'Secret to pull the image of debug pods with', helpValue: 'NAME', helpGroup}),
};
