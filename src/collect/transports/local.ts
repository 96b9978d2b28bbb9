import {hostname, networkInterfaces} from 'node:os';
import process from 'node:process';
import {CommandFailed, type NodeInfo, type NodeShell, type Transport, Unreachable} from '../node/transport.ts';
import {asRoot, isProgramMissing, runProgram, toolFolders} from './root-command.ts';

export interface LocalOptions {
  readonly sudo?: boolean;
  /** The one requested node is assumed to be this machine, whatever its name. */
  readonly onlyNode?: boolean;
}

/** Runs the commands on this machine: for use on the node itself. */
export function localTransport({sudo = false, onlyNode = false}: LocalOptions = {}): Transport {
  return {
    name: 'local',
    async open(node) {
      if (!onlyNode && !isThisMachine(node)) throw new Unreachable(notThisMachine(node), {isPermanent: true});
      return localShell(sudo);
    },
  };
}

function localShell(sudo: boolean): NodeShell {
  const env = {PATH: `${process.env['PATH'] ?? ''}:${toolFolders}`};
  return {
    description: sudo ? 'on this machine, by sudo' : 'on this machine',
    async run(argv, signal, take) {
      const [program = '', ...args] = asRoot(argv, sudo);
      const result = await runProgram(program, args, {signal, env, take});
      if (result.exitCode === 0) return result.stdout;
      throw new CommandFailed(argv, {...result, notFound: result.notFound || isProgramMissing(result)});
    },
    async [Symbol.asyncDispose]() {},
  };
}

function isThisMachine(node: NodeInfo): boolean {
  const own = hostname().toLowerCase();
  const names = [node.name, ...node.addresses.filter(({type}) => /^(Hostname|InternalDNS)$/.test(type)).map(({address}) => address)];
  if (names.some(name => name.toLowerCase() === own || name.toLowerCase() === own.split('.', 1)[0])) return true;
  const addresses = new Set(
    Object.values(networkInterfaces())
      .flat()
      .flatMap(entry => (entry === undefined || entry.internal ? [] : [entry.address])),
  );
  return node.addresses.some(({type, address}) => type.endsWith('IP') && addresses.has(address));
}

function notThisMachine({name, addresses}: NodeInfo): string {
  const known = addresses.map(({address}) => address).join(', ');
  return `${name}${known === '' ? '' : ` (${known})`} is not this machine (${hostname()}): name the node that is with --node, or use another --transport`;
}
