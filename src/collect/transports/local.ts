import {CommandFailed, type NodeShell, type Transport, Unreachable, type NodeInfo} from '../node/transport.ts';
import {refuseInvalidNodeName, endingWithInput, isProgramMissing, runProgram, asRoot, toolFolders} from './root-command.ts';
import {hostname, networkInterfaces} from 'node:os';
import process from 'node:process';

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

/** Programs that run nodes as containers, in the order in which they are tried. They take the same arguments. */
const programs = ['docker', 'podman'] as const;

/** Nodes that are containers on this machine, with the names of the nodes: kind, minikube. */
export function dockerTransport(): Transport {
  return {
    name: 'docker',
    async open(node, signal) {
      refuseInvalidNodeName(node);
      const reasons: string[] = [];
      for (const program of programs) {
        const reason = await whyNot(program, node.name, signal);
        if (reason === null) return containerShell(program, node.name);
        reasons.push(`${program}: ${reason}`);
      }
      throw new Unreachable(
        `no running container is called ${node.name} (${reasons.join('; ')}): this transport is for kind and minikube, on the machine they run on`,
        {cause: signal.reason, isPermanent: reasons.every(reason => reason.endsWith('is not installed'))},
      );
    },
  };
}

/** Why a container cannot be used; null if it runs. */
async function whyNot(program: string, container: string, signal: AbortSignal): Promise<string | null> {
  const result = await runProgram(program, ['container', 'inspect', '--format', '{{.State.Running}}', container], {signal});
  if (result.notFound) return 'is not installed';
  if (result.exitCode === 0) return result.stdout.toString('utf8').trim() === 'true' ? null : 'it is stopped';
  return result.stderr.trim().split('\n').at(-1) || 'no answer in time';
}

function containerShell(program: string, container: string): NodeShell {
  return {
    description: `${program} exec ${container}`,
    async run(argv, signal, take) {
      const words = ['exec', '--interactive', '--user', '0', container, ...endingWithInput(argv)];
      const result = await runProgram(program, words, {signal, take, openInput: true});
      if (result.exitCode === 0) return result.stdout;
      // An error of the engine itself is not one of the command.
      const exitCode = /^(?:Error response from daemon|Cannot connect to the)/m.test(result.stderr) ? null : result.exitCode;
      throw new CommandFailed(argv, {...result, exitCode, notFound: isProgramMissing(result)});
    },
    async [Symbol.asyncDispose]() {},
  };
}
