import {spawn} from 'node:child_process';
import process from 'node:process';
import {stripVTControlCharacters} from 'node:util';
import {execa} from 'execa';
import {startSvcTrace} from '../../executable.ts';

export interface SvcTraceOptions {
  readonly kubeconfig: string;
  /** Goes before PATH. */
  readonly bin?: string;
  readonly temporary?: string;
  /** What goes before the command, such as what enters a network namespace. */
  readonly enter?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs what is built, as a user would who has a kubeconfig, away from a terminal. Whoever waits for it gets its output and exit code. */
export function svcTrace(args: readonly string[], {kubeconfig, bin, temporary, enter = [], env = {}}: SvcTraceOptions) {
  const [program = '', ...rest] = [...enter, ...startSvcTrace, ...args];
  const {PATH = ''} = process.env;
  return execa(program, rest, {
    env: {
      ...{PATH: `${bin === undefined ? '' : `${bin}:`}${PATH}:/usr/sbin:/sbin`, HOME: '/nonexistent', KUBECONFIG: kubeconfig},
      ...(temporary === undefined ? {} : {TMPDIR: temporary}),
      ...env,
    },
    extendEnv: false,
    reject: false,
    stdin: 'ignore',
  });
}

/** A command that goes on, on a terminal of its own. */
export class OnTerminal implements Disposable {
  output = '';
  readonly #child;

  constructor(args: readonly string[], kubeconfig: string) {
    const command = [...startSvcTrace, ...args].map(word => `'${word}'`).join(' ');
    this.#child = spawn('script', ['-qec', `stty cols 120 rows 60; ${command}`, '/dev/null'], {
      env: {...process.env, KUBECONFIG: kubeconfig, HOME: '/nonexistent', TERM: 'xterm'},
    });
    this.#child.stdout.on('data', (data: Buffer) => {
      this.output += stripVTControlCharacters(data.toString());
    });
  }

  press(key: string): void {
    this.#child.stdin.write(key);
  }

  [Symbol.dispose](): void {
    this.#child.kill();
  }
}

/** The JSON of `check -o json`, as far as the tests use it. */
export interface CheckReport {
  readonly origin?: object;
  readonly summary: Readonly<Record<string, unknown>> & {
    readonly verdict: string;
    readonly nodesChecked: number;
    readonly nodesUnread: number;
  };
  readonly nodes: readonly {
    readonly name: string;
    readonly status: string;
    readonly reason?: string;
    readonly via?: string;
    readonly notRead?: readonly object[];
  }[];
  readonly findings: readonly {
    readonly code: string;
    readonly severity?: string;
    readonly node?: string;
    readonly service?: {readonly namespace: string; readonly name: string};
    readonly endpoint?: string;
    readonly command?: string;
    readonly message: string;
  }[];
}

/** A report without how its nodes were read and without pods of kube-proxy, which a bundle that was made by hand does not contain. */
export function withoutReading({nodes, findings, origin: _origin, ...report}: CheckReport): CheckReport {
  return {
    ...report,
    nodes: nodes.map(({via: _, notRead: __, ...node}) => node),
    findings: findings.map(({command: _, ...finding}) => finding),
  };
}
