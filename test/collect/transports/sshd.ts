import {spawn, spawnSync} from 'node:child_process';
import {once} from 'node:events';
import {chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {connect, createServer} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {setTimeout as sleep} from 'node:timers/promises';
import type {NodeInfo} from '../../../src/collect/node/transport.ts';
import type {SshOptions} from '../../../src/collect/transports/ssh.ts';

/** A real sshd on 127.0.0.1 with throw-away keys, on which root may log in with one of them. */
export interface Sshd extends AsyncDisposable {
  readonly folder: string;
  readonly options: SshOptions & {readonly options: readonly string[]};
  log(): string;
}

/** `bin` comes first in the PATH of those who log in, before the folders of a plain user. */
export async function startSshd(bin: string): Promise<Sshd> {
  mkdirSync('/run/sshd', {recursive: true});
  const folder = mkdtempSync(join(tmpdir(), 'sshd-'));
  chmodSync(folder, 0o755);
  const port = await freePort();
  for (const name of ['host', 'user', 'unauthorized']) newKey(join(folder, name));
  writeFileSync(join(folder, 'authorized'), readFileSync(join(folder, 'user.pub')));
  writeFileSync(join(folder, 'known'), knownHost(port, join(folder, 'host.pub')));
  writeFileSync(join(folder, 'known-otherwise'), knownHost(port, join(folder, 'unauthorized.pub')));
  writeFileSync(join(folder, 'known-nobody'), '');
  const settings = [`Port ${port}`, 'ListenAddress 127.0.0.1', ...loginSettings(folder, bin)];
  writeFileSync(join(folder, 'config'), `${settings.join('\n')}\n`);
  const server = spawn('/usr/sbin/sshd', ['-D', '-f', join(folder, 'config'), '-E', join(folder, 'log')], {stdio: 'ignore'});
  await untilListening(port);
  return {
    folder,
    options: {user: 'root', port, options: sshOptions(folder, 'user', 'known')},
    log: () => (existsSync(join(folder, 'log')) ? readFileSync(join(folder, 'log'), 'utf8') : ''),
    async [Symbol.asyncDispose]() {
      server.kill();
      await once(server, 'exit');
      rmSync(folder, {recursive: true});
    },
  };
}

/** Options by which the keys of the test are used, and no others. */
export function sshOptions(folder: string, key: string, known: string): readonly string[] {
  return [
    `IdentityFile=${folder}/${key}`,
    'IdentitiesOnly=yes',
    'IdentityAgent=none',
    `UserKnownHostsFile=${folder}/${known}`,
    'GlobalKnownHostsFile=/dev/null',
  ];
}

/** A node whose addresses are given, or 127.0.0.1. */
export function nodeAt(address = '127.0.0.1', name = 'node-a'): NodeInfo {
  return {name, addresses: [{type: 'InternalIP', address}], pods: []};
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** A pair of keys without a passphrase: `file` and `file.pub`. */
export function newKey(file: string): void {
  spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file]);
}

function knownHost(port: number, publicKey: string): string {
  return `[127.0.0.1]:${port} ${readFileSync(publicKey, 'utf8')}`;
}

async function untilListening(port: number): Promise<void> {
  for (let tries = 0; tries < 12_000; tries++) {
    const socket = connect(port, '127.0.0.1');
    const isThere = await Promise.race([once(socket, 'connect').then(() => true), once(socket, 'close').then(() => false)]).catch(
      () => false,
    );
    socket.destroy();
    if (isThere) return;
    await sleep(50);
  }
  throw new Error(`sshd does not listen on port ${port}`);
}

/** Settings of an sshd that accepts only the keys of a folder. `bin` comes first in the PATH of those who log in. */
export function loginSettings(folder: string, bin: string): readonly string[] {
  return [
    `HostKey ${folder}/host`,
    `AuthorizedKeysFile ${folder}/authorized`,
    'PermitRootLogin yes',
    'PasswordAuthentication no',
    'KbdInteractiveAuthentication no',
    'StrictModes no',
    'PidFile none',
    // No files of the one whose machine this is: a shell would read them for every command.
    `SetEnv PATH=${bin}:/usr/bin:/bin HOME=${folder}`,
  ];
}
