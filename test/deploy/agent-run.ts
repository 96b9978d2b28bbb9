import {once} from 'node:events';
import {chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import type http from 'node:http';
import https from 'node:https';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {text} from 'node:stream/consumers';
import {execa} from 'execa';

const executable = join(import.meta.dirname, '../../bin/run.js');

export interface RunningAgent extends AsyncDisposable {
  /** Where it answers. */
  readonly port: number;
  /** One of its pages, for a user with this token, by default the administrator. */
  readonly page: (path: string, token?: string) => Promise<{readonly status: number; readonly text: string}>;
}

export interface AgentPlace {
  /** The bundle whose node it believes to run on. */
  readonly bundle: string;
  readonly node: string;
  readonly kubeconfig: string;
  /** As in the container, the port aside. */
  readonly args: readonly string[];
}

/** A real agent, started as in its container, on a machine whose programs print what a bundle holds of a node. Resolves when it has judged it. */
export async function startAgent({bundle, node, kubeconfig, args}: AgentPlace): Promise<RunningAgent> {
  const tools = writeTools(join(bundle, 'nodes', node));
  const running = execa(process.execPath, [executable, ...args], {
    env: {KUBECONFIG: kubeconfig, NODE_NAME: node, PATH: `${tools}:${process.env['PATH']}`},
    ...{stdin: 'ignore', reject: false},
    // On a machine with much to do it takes longer to end than the five seconds after which execa kills it.
    forceKillAfterDelay: false,
  });
  let hasEnded = false;
  void running.then(() => (hasEnded = true));
  const port = await new Promise<string>((resolve, reject) => {
    let said = '';
    running.stderr.on('data', (part: Buffer) => {
      said += part.toString();
      const found = /, port (\d+)/.exec(said)?.[1];
      if (found !== undefined) resolve(found);
    });
    void running.then(() => reject(new Error(said)));
  });
  // A connection each: one that is kept may be closed by the agent at the moment when it is used again.
  const page = async (path: string, token = 'admin-token') => {
    const headers = {authorization: `Bearer ${token}`};
    const asked = https.get({host: '127.0.0.1', port, path, headers, agent: false, rejectUnauthorized: false});
    const [answer] = (await once(asked, 'response')) as [http.IncomingMessage];
    return {status: answer.statusCode ?? 0, text: await text(answer)};
  };
  // An agent that starts on a busy machine may reset a connection.
  const isReady = async () => {
    try {
      return (await page('/readyz')).status === 200;
    } catch (error) {
      if (hasEnded) throw error;
      return false;
    }
  };
  while (!(await isReady())) await new Promise(resolve => setTimeout(resolve, 100));
  return {
    ...{page, port: Number(port)},
    async [Symbol.asyncDispose]() {
      running.kill('SIGTERM');
      const {exitCode} = await running;
      rmSync(join(tools, '..'), {recursive: true});
      if (exitCode !== 0) throw new Error(`the agent ended with ${exitCode}`);
    },
  };
}

/** Programs that print files of a node, in place of the programs of this machine, which would print its own state. */
function writeTools(folder: string): string {
  const tools = join(mkdtempSync(join(tmpdir(), 'svc-trace-agent-')), 'bin');
  mkdirSync(tools);
  const files: Readonly<Record<string, string>> = {
    iptables: 'iptables-version',
    ip: 'addresses.json',
    sysctl: 'sysctls',
    'kube-proxy': 'kube-proxy-version',
  };
  for (const program of programs) {
    const file = join(folder, files[program] ?? program);
    const script = existsSync(file) ? `exec cat '${file}'` : `echo '${program}: not found' >&2; exit 127`;
    writeFileSync(join(tools, program), `#!/bin/sh\n${script}\n`);
    chmodSync(join(tools, program), 0o755);
  }
  return tools;
}

const programs = [
  ...[
    'iptables',
    'iptables-save',
    'ip6tables-save',
    'iptables-legacy-save',
    'ip6tables-legacy-save',
    'iptables-nft-save',
    'ip6tables-nft-save',
  ],
  ...['nft', 'ip', 'sysctl', 'conntrack', 'ipset', 'ipvsadm', 'ipvsadm-save', 'curl', 'wget', 'kube-proxy', 'grep'],
];
