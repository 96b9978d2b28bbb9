import {copyFileSync, mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {keySettings, newKey, sshOptions} from '../../collect/transports/sshd.ts';
import type {LiveNode} from './live-node.ts';
import {writeProgram} from './write-program.ts';

/** How the nodes of a cluster are reached by ssh: each has a real sshd of its own, which is started for a connection, on the node. */
export interface SshAccess {
  /** Flags of the command line, for a key that the nodes take and host keys that are known, or for others. */
  flags(keys?: {readonly key?: 'user' | 'unknown'; readonly known?: 'known' | 'known-otherwise' | 'known-nobody'}): readonly string[];
}

/** `bin` comes first in the PATH of those who log in. All files go to `folder`. */
export function makeSshAccess(folder: string, nodes: readonly LiveNode[], bin: string): SshAccess {
  mkdirSync('/run/sshd', {recursive: true});
  mkdirSync(folder);
  for (const name of ['host', 'user', 'unknown']) newKey(join(folder, name));
  copyFileSync(join(folder, 'user.pub'), join(folder, 'authorized'));
  for (const [file, key] of [
    ['known', 'host'],
    ['known-otherwise', 'unknown'],
  ] as const) {
    writeFileSync(join(folder, file), `* ${readFileSync(join(folder, `${key}.pub`), 'utf8')}`);
  }
  writeFileSync(join(folder, 'known-nobody'), '');
  writeFileSync(join(folder, 'config'), `${settings(folder, bin).join('\n')}\n`);
  writeProgram(join(folder, 'reach'), reach(folder, nodes));
  return {
    flags({key = 'user', known = 'known'} = {}) {
      const options = [...sshOptions(folder, key, known), `ProxyCommand=${folder}/reach %h`];
      return ['--transport', 'ssh', '--ssh-user', 'root', ...options.flatMap(option => ['--ssh-option', option])];
    },
  };
}

function settings(folder: string, bin: string): readonly string[] {
  return [
    ...keySettings(folder),
    // No files of the one whose machine this is: a shell would read them for every command.
    `SetEnv PATH=${bin}:/usr/bin:/bin HOME=${folder}`,
  ];
}

/** Stands for the network between here and the nodes. */
function reach(folder: string, nodes: readonly LiveNode[]): string {
  const cases = nodes.map(node => {
    const [
      {
        addr_info: [{local} = {local: ''}],
      } = {addr_info: []},
    ] = JSON.parse(node.run('ip', '-j', '-4', 'addr', 'show', 'dev', 'eth0')) as {addr_info: {local: string}[]}[];
    return `  ${node.name}|${local}) exec ${node.enter.join(' ')} /usr/sbin/sshd -i -f ${folder}/config ;;`;
  });
  return `case "$1" in\n${cases.join('\n')}\n  *) echo "no route to $1" >&2; exit 1 ;;\nesac`;
}
