import {spawn} from 'node:child_process';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {describe, expect, test as base} from 'vitest';
import {capturePath} from '../../fixtures.ts';
import {describeWith} from '../../require.ts';
import type {ApiServer} from '../../stand-in/api-server.ts';
import {startBundleCluster} from '../../stand-in/bundle-cluster.ts';
import {svcTrace} from '../../svc-trace.ts';

const executable = join(import.meta.dirname, '../../../bin/run.js');
const healthy = capturePath('healthy/1.36-iptables');
const own = readFileSync(`${healthy}/nodes/node-a/iptables-save`, 'utf8');
const behind = own.replaceAll('--to-destination 10.244.11.4:8080', '--to-destination 10.244.99.9:8080');

interface Watched {
  readonly server: ApiServer;
  /** What node-a has. */
  rules: string;
}

/** A cluster for each test: they wait most of the time, and do it together. */
const test = base.extend<{cluster: Watched}>({
  // biome-ignore lint/correctness/noEmptyPattern: Vitest wants a pattern
  cluster: async ({}, use) => {
    const cluster: Watched = {
      rules: own,
      server: await startBundleCluster(healthy, {
        exec: ({node, argv}) => (node === 'node-a' && argv.join(' ') === 'iptables-save' ? {stdout: cluster.rules} : null),
      }),
    };
    await use(cluster);
    await cluster.server.close();
  },
});

const env = ({server}: Pick<Watched, 'server'>) => ({
  ...process.env,
  KUBECONFIG: server.kubeconfig,
  NO_COLOR: '1',
  FORCE_COLOR: undefined,
  COLUMNS: undefined,
});

interface Terminal {
  /** All that was written to it. */
  readonly text: () => string;
  readonly type: (keys: string) => void;
  readonly exitCode: Promise<number | null>;
}

/** Runs the program on a pseudo-terminal, of the size that is asked for. */
function onTerminal(cluster: Watched, args: readonly string[], before = 'stty rows 24 cols 80'): Terminal {
  const command = [process.execPath, executable, ...args].map(word => `'${word}'`).join(' ');
  const child = spawn('script', ['-qefc', `${before}; exec ${command}`, '/dev/null'], {env: {...env(cluster), TERM: 'xterm'}});
  let text = '';
  child.stdout.on('data', (data: Buffer) => {
    text += data.toString('utf8');
  });
  const exitCode = new Promise<number | null>(resolve => child.on('close', code => resolve(code)));
  return {text: () => text, type: keys => child.stdin.write(keys), exitCode};
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise(resolve => setTimeout(resolve, 20));
}

/** The lines of the frame that was drawn last. */
function screen(terminal: Terminal): readonly string[] {
  const screen = terminal.text().split('\u001b[H').at(-1) ?? '';
  return screen.split('\u001b[?25h')[0]?.replaceAll('\u001b[K', '').replaceAll('\u001b[J', '').split('\r\n') ?? [];
}

/** As when a controller writes it. */
function touch({server}: Watched): void {
  const web = server.store.find('services', 'shop', 'web');
  if (web !== undefined) server.store.put('services', web);
}

const interrupt = '\u0003';

describeWith(['script'], 'on a terminal', () => {
  test.concurrent('it redraws in place, shows changes, and restores the terminal', async ({cluster}) => {
    const terminal = onTerminal(cluster, ['watch', '-n', 'shop', 'web', '--interval', '1s']);
    await until(() => screen(terminal).includes('OK: shop/web is in sync on all 3 nodes'));
    expect(terminal.text().startsWith('\u001b[?1049h\u001b[?25l')).toBe(true);
    expect(screen(terminal)).toEqual(expect.arrayContaining([expect.stringMatching(/^read at \d\d:\d\d:\d\d: node-a, node-b, node-c$/)]));
    cluster.rules = behind;
    await until(() => screen(terminal).some(line => line.startsWith('FAULTY: ')));
    expect(screen(terminal)).toEqual(expect.arrayContaining([expect.stringMatching(/^shop\/web +ST204 +ok +ok$/)]));
    expect(screen(terminal)).toEqual(expect.arrayContaining([expect.stringMatching(/^\d\d:\d\d:\d\d new ST204 node-a shop\/web/)]));
    cluster.rules = own;
    await until(() => screen(terminal).some(line => / resolved ST204 node-a /.test(line)));
    terminal.type(interrupt);
    expect(await terminal.exitCode).toBe(130);
    expect(terminal.text().split('\u001b[?25h\u001b[?1049l')[1]?.trim()).toBe('OK: shop/web is in sync on all 3 nodes');
  });

  test.concurrent('q ends it with exit code 0, as the last line says', async ({cluster}) => {
    const terminal = onTerminal(cluster, ['watch', '-n', 'shop', 'web', '--interval', '1m']);
    await until(() => screen(terminal).includes('OK: shop/web is in sync on all 3 nodes'));
    expect(screen(terminal).at(-1)).toBe('q quits  / filters  Enter traces shop/web');
    terminal.type('q');
    expect(await terminal.exitCode).toBe(0);
    expect(terminal.text().split('\u001b[?25h\u001b[?1049l')[1]?.trim()).toBe('OK: shop/web is in sync on all 3 nodes');
  });

  test.concurrent('the screen fits the terminal in width and height', async ({cluster}) => {
    cluster.rules = behind;
    const terminal = onTerminal(cluster, ['watch', '-n', 'shop', '--interval', '1m'], 'stty rows 8 cols 40');
    await until(() => screen(terminal).some(line => line.startsWith('FAULTY: ')));
    terminal.type(interrupt);
    await terminal.exitCode;
    // The terminal itself shows the key that was typed.
    const lines = screen(terminal).map(line => line.replace('^C', ''));
    expect(lines.length).toBeLessThanOrEqual(8);
    expect(Math.max(...lines.map(line => line.length))).toBeLessThanOrEqual(40);
  });

  test.concurrent('wrong use is reported on the normal screen', async ({cluster}) => {
    const terminal = onTerminal(cluster, ['watch', '-n', 'shop', 'wbe']);
    expect(await terminal.exitCode).toBe(2);
    expect(terminal.text().split('\u001b[?1049l').at(-1)).toContain('Service "wbe" not found in namespace shop');
  });
});

describe('without a terminal', () => {
  function lines(cluster: Watched, args: readonly string[]) {
    const run = execa(process.execPath, [executable, 'watch', ...args], {
      reject: false,
      stdin: 'ignore',
      env: env(cluster),
      extendEnv: false,
    });
    let text = '';
    run.stdout.on('data', (data: Buffer) => {
      text += data.toString('utf8');
    });
    return {run, text: () => text};
  }

  test.concurrent('it prints a line for each new and each resolved finding', async ({cluster}) => {
    const {run, text} = lines(cluster, ['-n', 'shop', 'web', '--interval', '1s']);
    await until(() => text().includes('OK: '));
    cluster.rules = behind;
    await until(() => text().includes('FAULTY: '));
    cluster.rules = own;
    await until(() => text().includes(' resolved '));
    await until(() => text().split('OK: ').length === 3);
    run.kill('SIGINT');
    const {exitCode, stderr} = await run;
    expect(stderr).toBe('');
    expect(exitCode).toBe(130);
    const said = text()
      .trim()
      .split('\n')
      .map(line => line.replace(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ /, ''));
    expect(said[0]).toBe('OK: shop/web is in sync on all 3 nodes');
    expect(said.slice(1, -1).map(line => line.split(' ').slice(0, 3).join(' '))).toEqual([
      'new ST204 node-a',
      expect.stringMatching(/^FAULTY: \S+ on$/),
      'resolved ST204 node-a',
    ]);
    expect(said.at(-1)).toBe(said[0]);
    expect(text()).not.toContain('\u001b');
  });

  test.concurrent('a change of the Service is checked at once', async ({cluster}) => {
    const {run, text} = lines(cluster, ['-n', 'shop', 'web', '--interval', '10m']);
    await until(() => text().includes('OK: '));
    cluster.rules = behind;
    touch(cluster);
    await until(() => text().includes('new ST204'));
    run.kill('SIGTERM');
    expect((await run).exitCode).toBe(130);
  });

  test.concurrent('it ends when the reader closes the pipe', async () => {
    let looks = 0;
    const changing = await startBundleCluster(healthy, {
      exec: ({node, argv}) => (node === 'node-a' && argv.join(' ') === 'iptables-save' ? {stdout: looks++ === 0 ? own : behind} : null),
    });
    try {
      const command = `'${process.execPath}' '${executable}' watch -n shop web --interval 1s | head -n 1; echo "ended with \${PIPESTATUS[0]}"`;
      const {stdout} = await execa('bash', ['-c', command], {
        ...{reject: false, stdin: 'ignore', env: env({server: changing}), extendEnv: false},
      });
      expect(stdout.split('\n')).toEqual([expect.stringContaining('OK: '), 'ended with 130']);
    } finally {
      await changing.close();
    }
  });

  test.concurrent.for([
    [['--interval', 'soon'], '--interval soon'],
    [['--interval', '10ms'], '--interval 10ms'],
    [['--from', healthy], 'unknown flag --from'],
  ] as const)('wrong use: %j', async ([args, message], {cluster}) => {
    const {exitCode, stderr} = await svcTrace(['watch', ...args], {env: {KUBECONFIG: cluster.server.kubeconfig}});
    expect(stderr.replaceAll(/\s*›\s*/g, ' ')).toContain(message);
    expect(exitCode).toBe(2);
  });
});
