import {once} from 'node:events';
import {chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {createServer} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll, beforeEach, describe, expect, test} from 'vitest';
import {collectNode} from '../../../src/collect/node/collect-node.ts';
import {CommandFailed, type NodeShell, Unreachable} from '../../../src/collect/node/transport.ts';
import {type SshOptions, sshTransport} from '../../../src/collect/transports/ssh.ts';
import {commandLines, isRunning} from '../../processes.ts';
import {describeWith} from '../../require.ts';
import {freePort, nodeAt, type Sshd, sshOptions, startSshd} from './sshd.ts';

const signal = new AbortController().signal;

describe('ssh without a server', () => {
  test.each(['-oProxyCommand=touch /tmp/x', '--', 'a b', '$(reboot)', 'a\nb', '', 'user@host'])('refuses the node name %j', async name => {
    await expect(sshTransport().open(nodeAt('127.0.0.1', name), signal)).rejects.toThrow(Unreachable);
  });

  test.each(['-oProxyCommand=touch /tmp/x', 'root@10.0.0.1', 'ssh://10.0.0.1', '10.0.0.1;reboot', 'fe80::1%eth0', '$(reboot)', ''])(
    'refuses the address %j, which the node reports',
    async address => {
      const opening = sshTransport().open(nodeAt(address), signal);
      await expect(opening).rejects.toThrow('neither an IP address nor a host name');
    },
  );

  test('names the addresses of a node that lacks the requested one', async () => {
    const opening = sshTransport({addressType: 'ExternalIP'}).open(nodeAt('10.0.0.1'), signal);
    await expect(opening).rejects.toThrow('node-a has no ExternalIP (it has InternalIP 10.0.0.1): choose another with --ssh-address');
  });

  test('reports that ssh is not installed', async () => {
    const path = process.env['PATH'];
    process.env['PATH'] = '/nowhere';
    try {
      await expect(sshTransport().open(nodeAt(), signal)).rejects.toThrow('ssh is not installed');
    } finally {
      process.env['PATH'] = path;
    }
  });
});

describeWith(['root', 'sshd', 'ssh'], 'ssh', () => {
  let server: Sshd;
  let folder: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'ssh-test-'));
    mkdirSync(join(folder, 'bin'));
    mkdirSync(join(folder, 'temporary'));
    writeSudo('exec "$@"');
    server = await startSshd(join(folder, 'bin'));
    process.env['TMPDIR'] = join(folder, 'temporary');
  });

  afterAll(async () => {
    delete process.env['TMPDIR'];
    await server?.[Symbol.asyncDispose]();
    rmSync(folder, {recursive: true});
  });

  beforeEach(() => writeSudo('exec "$@"'));

  /** A sudo that insists on `-n --` and writes down what it was asked for. */
  function writeSudo(body: string): void {
    const script = `#!/bin/sh\n[ "$1 $2" = "-n --" ] || exit 99\nshift 2\necho "$*" >>${folder}/sudo-log\n${body}\n`;
    writeFileSync(join(folder, 'bin', 'sudo'), script);
    chmodSync(join(folder, 'bin', 'sudo'), 0o755);
  }

  function openShell(options: SshOptions = {}, address?: string): Promise<NodeShell> {
    return sshTransport({...server.options, ...options}).open(nodeAt(address), signal);
  }

  /** What is left of shared connections: folders, and processes that hold one. */
  function leftBehind(): readonly string[] {
    const processes = commandLines().filter(line => line.includes(join(folder, 'temporary')));
    return [...readdirSync(join(folder, 'temporary')), ...processes];
  }

  describe('over one connection', () => {
    let shell: NodeShell;
    beforeAll(async () => {
      shell = await openShell();
    });
    afterAll(() => shell[Symbol.asyncDispose]());

    test('every argument of a command arrives unchanged', async () => {
      const words = [
        'a b',
        "it's",
        '"',
        '$(touch /tmp/svc-trace-pwned)',
        '`id`',
        'a\nb',
        '\\',
        '*',
        ';',
        '-n',
        '',
        '~',
        '!x',
        '{a,b}',
        'ünï',
        "'; id; '",
      ];
      const printed = await shell.run(['printf', '%s\\0', ...words], signal);
      expect(printed.toString('utf8').split('\0').slice(0, -1)).toEqual(words);
    });

    test('tools outside of the PATH of an ordinary user are found', async () => {
      expect((await shell.run(['iptables-save', '--version'], signal)).toString('utf8')).toMatch(/^iptables-save v/);
    });

    test('large output arrives complete', async () => {
      expect((await shell.run(['head', '-c', '20000000', '/dev/zero'], signal)).length).toBe(20_000_000);
    });

    test.each([
      {
        what: 'a failed command',
        argv: ['ls', '/nowhere'],
        expected: {exitCode: 2, notFound: false, stderr: expect.stringContaining('nowhere')},
      },
      {what: 'a missing program', argv: ['no-such-program'], expected: {notFound: true}},
      {
        what: 'a command with the exit code of a failed ssh',
        argv: ['sh', '-c', 'echo no >&2; exit 255'],
        expected: {exitCode: 255, stderr: 'no'},
      },
      {what: 'a connection that breaks', argv: ['sh', '-c', 'kill -9 $PPID'], expected: {exitCode: null, notFound: false}},
    ])('reports $what', async ({argv, expected}) => {
      const error = await shell.run(argv, signal).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(CommandFailed);
      expect(error).toMatchObject(expected);
    });
  });

  test('all commands of a node use one connection, which is closed at the end', async () => {
    const before = server.log().match(/Accepted publickey/g)?.length ?? 0;
    {
      await using shell = await openShell();
      await Promise.all([1, 2, 3].map(number => shell.run(['echo', String(number)], signal)));
      expect(shell.description).toBe('ssh to 127.0.0.1');
      expect(leftBehind()).not.toEqual([]);
    }
    expect((server.log().match(/Accepted publickey/g)?.length ?? 0) - before).toBe(1);
    // The connection takes a moment to close.
    await expect.poll(leftBehind).toEqual([]);
  });

  test('a key that the node does not accept is reported, with the remedy', async () => {
    await expect(openShell({options: sshOptions(server.folder, 'unauthorized', 'known')})).rejects.toThrow(
      /Permission denied.*none of your keys.*--ssh-user/,
    );
    // The connection takes a moment to close.
    await expect.poll(leftBehind).toEqual([]);
  });

  test('an unknown host key is not accepted', async () => {
    const opening = openShell({options: sshOptions(server.folder, 'user', 'known-nobody')});
    await expect(opening).rejects.toThrow(/Host key verification failed.*not known here.*accept-new/);
    expect(readFileSync(join(server.folder, 'known-nobody'), 'utf8')).toBe('');
  });

  test('a changed host key is not accepted', async () => {
    const opening = openShell({options: sshOptions(server.folder, 'user', 'known-otherwise')});
    await expect(opening).rejects.toThrow(/differs from the known one.*ssh-keygen -R/);
  });

  test('a port on which nothing listens is reported', async () => {
    await expect(openShell({port: await freePort()})).rejects.toThrow(/Connection refused: nothing listens there.*--ssh-port/);
  });

  test('an unknown option of ssh is reported', async () => {
    await expect(openShell({options: ['NoSuchOption=1']})).rejects.toThrow(/put your ssh configuration or --ssh-option right/);
  });

  test('a server that never responds is given up', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const address = silent.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    await expect(openShell({port, connectTimeoutMs: 1000})).rejects.toThrow(/timed out.*not to be reached/);
    const opening = sshTransport({...server.options, port}).open(nodeAt(), AbortSignal.timeout(300));
    await expect(opening).rejects.toThrow('stopped before there was an answer');
    // The connection takes a moment to close.
    await expect.poll(leftBehind).toEqual([]);
    silent.close();
  });

  test.each(['dash', 'bash', 'busybox'].filter(shell => existsSync(`/bin/${shell}`)))(
    'a command that hangs is ended on the node too, where the shell is %s, and others give what they gave',
    async name => {
      symlinkSync(`/bin/${name}`, join(folder, 'bin/sh'));
      const shell = await openShell();
      try {
        expect((await shell.run(['printf', '%s|', 'a b', "it's $x"], signal)).toString()).toBe("a b|it's $x|");
        await expect(shell.run(['false'], signal)).rejects.toMatchObject({exitCode: 1});
        await expect(shell.run(['no-such-program'], signal)).rejects.toMatchObject({notFound: true});
        const hangs = ['sleep', '61.25'];
        const isThere = () => isRunning(hangs);
        const stop = new AbortController();
        const running = expect(shell.run(hangs, stop.signal)).rejects.toThrow(CommandFailed);
        await expect.poll(isThere).toBe(true);
        stop.abort();
        await running;
        await expect.poll(isThere).toBe(false);
      } finally {
        rmSync(join(folder, 'bin/sh'));
        await shell[Symbol.asyncDispose]();
      }
    },
  );

  test('a command that hangs is ended when the signal is aborted', async () => {
    {
      await using shell = await openShell();
      await expect(shell.run(['sleep', '60'], AbortSignal.timeout(300))).rejects.toThrow('sleep did not end by itself');
    }
    // The connection takes a moment to close.
    await expect.poll(leftBehind).toEqual([]);
  });

  test('with sudo every command goes through sudo -n', async () => {
    await using shell = await openShell({sudo: true});
    expect((await shell.run(['echo', 'a  b'], signal)).toString('utf8')).toBe('a  b\n');
    expect(readFileSync(join(folder, 'sudo-log'), 'utf8')).toMatch(/iptables-save --version\necho a {2}b\n$/);
  });

  test('what sudo runs is ended by sudo, since it belongs to root and sudo takes no signal of its own group', async () => {
    await using shell = await openShell({sudo: true});
    // A sudo that no signal ends.
    writeSudo('trap "" TERM; [ "$1" = kill ] && exec "$@"; (trap - TERM; exec "$@") & wait; wait');
    const stop = new AbortController();
    const running = expect(shell.run(['sleep', '61.5'], stop.signal)).rejects.toThrow(CommandFailed);
    const isThere = () => isRunning(['sleep', '61.5']);
    await expect.poll(isThere).toBe(true);
    stop.abort();
    await running;
    await expect.poll(isThere).toBe(false);
  });

  test('a sudo that requires a password is reported', async () => {
    writeSudo('echo "sudo: a password is required" >&2; exit 1');
    await expect(openShell({sudo: true})).rejects.toThrow('a password is required: sudo on node-a must not ask for a password');
  });

  test('a program that sudo does not find counts as missing', async () => {
    await using shell = await openShell({sudo: true});
    writeSudo('echo "sudo: $1: command not found" >&2; exit 1');
    await expect(shell.run(['conntrack', '-L'], signal)).rejects.toMatchObject({notFound: true});
  });

  test('a node is read over a connection that breaks once', async () => {
    writeFileSync(
      join(folder, 'bin', 'ip6tables-save'),
      `#!/bin/sh\nmkdir ${folder}/once 2>/dev/null && kill -9 $PPID\nsleep 0.2; exec /usr/sbin/ip6tables-save\n`,
    );
    chmodSync(join(folder, 'bin', 'ip6tables-save'), 0o755);
    const wants = (file: string) => ['iptables-version', 'ip6tables-save'].includes(file);
    const node = await collectNode(nodeAt(), sshTransport(server.options), {signal, timeoutMs: 600_000, wants});
    rmSync(join(folder, 'bin', 'ip6tables-save'));
    expect(node).toMatchObject({status: 'read', problems: [], files: ['ip6tables-save', 'iptables-version']});
    expect(readdirSync(folder)).toContain('once');
    // The connection takes a moment to close.
    await expect.poll(leftBehind).toEqual([]);
  });
});
