import {chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterEach, beforeEach, describe, expect, test} from 'vitest';
import {CommandFailed, Unreachable} from '../../../src/collect/node/transport.ts';
import {dockerTransport} from '../../../src/collect/transports/local.ts';
import {isRunning} from '../../processes.ts';
import {nodeAt} from './sshd.ts';

const signal = new AbortController().signal;

describe('docker', () => {
  const path = process.env['PATH'];
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'docker-test-'));
    process.env['PATH'] = folder;
  });

  afterEach(() => {
    process.env['PATH'] = path;
    rmSync(folder, {recursive: true});
  });

  /** An engine that writes down what it is asked for; `inspect` and `exec` are what it does then, in shell. */
  function writeEngine(name: string, inspect: string, exec = 'PATH=/usr/bin:/bin; shift 5; exec "$@"'): void {
    const script = `#!/bin/sh\nfor word; do printf '<%s>' "$word"; done >>${folder}/log\nif [ "$1" = container ]; then ${inspect}; else ${exec}; fi\n`;
    writeFileSync(join(folder, name), script);
    chmodSync(join(folder, name), 0o755);
  }

  test('runs commands in the container with the name of the node, and passes each argument unchanged', async () => {
    writeEngine('docker', 'echo true');
    await using shell = await dockerTransport().open(nodeAt(), signal);
    expect((await shell.run(['printf', '%s\n', "a b'$(id)\n"], signal)).toString()).toBe("a b'$(id)\n\n");
    expect(shell.description).toBe('docker exec node-a');
    expect(readFileSync(join(folder, 'log'), 'utf8')).toContain('<exec><--interactive><--user><0><node-a><sh><-c>');
  });

  test('a command that hangs is ended in the container too, which the engine does not do', async () => {
    // What it starts is in a session of its own, and has the input of the client.
    writeEngine('docker', 'echo true', 'PATH=/usr/bin:/bin; shift 5; exec 3<&0; setsid "$@" <&3 & wait');
    await using shell = await dockerTransport().open(nodeAt(), signal);
    const hangs = ['sleep', '61.75'];
    const isThere = () => isRunning(hangs);
    const stop = new AbortController();
    const running = expect(shell.run(hangs, stop.signal)).rejects.toThrow(CommandFailed);
    await expect.poll(isThere).toBe(true);
    stop.abort();
    await running;
    await expect.poll(isThere).toBe(false);
  });

  test('podman is used if docker is not installed', async () => {
    writeEngine('podman', 'echo true');
    await using shell = await dockerTransport().open(nodeAt(), signal);
    expect(shell.description).toBe('podman exec node-a');
  });

  test('podman is used if docker has no such container', async () => {
    writeEngine('docker', 'echo "Error: No such container: node-a" >&2; exit 1');
    writeEngine('podman', 'echo true');
    await using shell = await dockerTransport().open(nodeAt(), signal);
    expect(shell.description).toBe('podman exec node-a');
  });

  test('a missing or stopped container is reported with the message of each engine', async () => {
    writeEngine('docker', 'echo "Error: No such container: node-a" >&2; exit 1');
    writeEngine('podman', 'echo false');
    const opening = dockerTransport().open(nodeAt(), signal);
    await expect(opening).rejects.toThrow(
      /no running container is called node-a \(docker: Error: No such container: node-a; podman: it is stopped\)/,
    );
  });

  test('a machine without an engine is reported', async () => {
    await expect(dockerTransport().open(nodeAt(), signal)).rejects.toThrow('(docker: is not installed; podman: is not installed)');
  });

  test.each(['--privileged', '-v/:/host', 'a b', 'a;reboot', ''])('the node name %j does not reach the engine', async name => {
    writeEngine('docker', 'echo true');
    await expect(dockerTransport().open(nodeAt('127.0.0.1', name), signal)).rejects.toThrow(Unreachable);
    expect(() => readFileSync(join(folder, 'log'))).toThrow('ENOENT');
  });

  test.each([
    {what: 'a failed command', exec: 'echo broken >&2; exit 4', expected: {exitCode: 4, notFound: false, stderr: 'broken'}},
    {
      what: 'a missing program',
      exec: 'echo "OCI runtime exec failed: executable file not found in $PATH" >&2; exit 126',
      expected: {notFound: true},
    },
    {
      what: 'a stopped container',
      exec: 'echo "Error response from daemon: container x is not running" >&2; exit 1',
      expected: {exitCode: null, notFound: false},
    },
  ])('reports $what', async ({exec, expected}) => {
    writeEngine('docker', 'echo true', exec);
    await using shell = await dockerTransport().open(nodeAt(), signal);
    const error = await shell.run(['iptables-save'], signal).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(CommandFailed);
    expect(error).toMatchObject(expected);
  });
});
