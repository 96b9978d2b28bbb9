import {CommandFailed, type NodeShell, type Transport, Unreachable} from '../node/transport.ts';
import {refuseInvalidNodeName, endingWithInput, isProgramMissing, runProgram} from './root-command.ts';

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
