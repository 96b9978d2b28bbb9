import {mkdtemp, open, readFile, rm} from 'node:fs/promises';
import {isIP} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {CommandFailed, type NodeInfo, type NodeShell, type TakeOutput, type Transport, Unreachable} from '../node/transport.ts';
import {
  refuseInvalidNodeName,
  asRoot,
  endingWithInput,
  isProgramMissing,
  quoted,
  runProgram,
  sudoRefusal,
  toolFolders,
} from './root-command.ts';

export interface SshOptions {
  readonly user?: string | undefined;
  readonly port?: number | undefined;
  /** Options as in ssh_config, such as `ProxyJump=bastion`. They override all of ours except those of the shared connection. */
  readonly options?: readonly string[] | undefined;
  readonly addressType?: SshAddressType | undefined;
  readonly sudo?: boolean;
  /** Timeout for the connection, in milliseconds. */
  readonly connectTimeoutMs?: number;
}

/** The system's ssh: with the user's configuration, agent, jump hosts and host-key checks. One connection a node, closed in the end. */
export function sshTransport(options: SshOptions = {}): Transport {
  return {
    name: 'ssh',
    async open(node, signal) {
      refuseInvalidNodeName(node);
      const host = sshHost(node, options.addressType);
      const connection = new SshConnection(host, options, await mkdtemp(join(tmpdir(), 'svc-trace-')));
      try {
        await connection.start(node, signal);
        return connection;
      } catch (error) {
        await connection[Symbol.asyncDispose]();
        throw error;
      }
    },
  };
}

/** ssh exits with this code if ssh itself failed. A command can do so too. */
const sshFailed = 255;

/** The shared connection ends by itself this long after the last command, in seconds, even if this process was killed. */
const idleSeconds = 60;

class SshConnection implements NodeShell {
  description: string;
  readonly #host: string;
  readonly #options: SshOptions;
  /** A private folder for the socket of the shared connection and the messages of ssh. */
  readonly #folder: string;
  #commands = 0;

  constructor(host: string, options: SshOptions, folder: string) {
    this.description = `ssh to ${host}${options.sudo === true ? ', by sudo' : ''}`;
    this.#host = host;
    this.#options = options;
    this.#folder = folder;
  }

  /** Connects, and determines whether commands will run as root. The connection stays in the background. */
  async start(node: NodeInfo, signal: AbortSignal): Promise<void> {
    const sudo = this.#options.sudo === true;
    const log = join(this.#folder, 'log');
    const file = await open(log, 'a', 0o600);
    // With sudo, it must be a command that sudoers has to allow anyway.
    const command = remoteCommand(asRoot(sudo ? ['iptables-save', '--version'] : ['id', '-u'], sudo));
    const settings = ['ControlMaster=auto', `ControlPersist=${idleSeconds}`];
    const result = await runProgram('ssh', [...this.#arguments(log, settings), command], {
      signal,
      stderr: file.createWriteStream({autoClose: false}),
    });
    await file.close();
    const said = await readFile(log, 'utf8');
    if (result.notFound)
      throw new Unreachable('ssh is not installed on this machine, or not on PATH', {cause: result.cause, isPermanent: true});
    if (signal.aborted) throw new Unreachable(`ssh to ${this.#host}: stopped before there was an answer`, {cause: signal.reason});
    const refused = sudo ? sudoRefusal(said) : null;
    if (refused !== null)
      throw new Unreachable(`ssh to ${this.#host}: ${refused}: sudo on ${node.name} must not ask for a password`, {isPermanent: true});
    if (result.exitCode !== 0 && (!sudo || result.exitCode === sshFailed)) {
      // Whether ssh would fail the same way again: a key or a setting is wrong.
      throw new Unreachable(`ssh to ${this.#host}: ${lastLine(said) || 'it ended without a word'}: ${sshRemedy(said, this.#host)}`, {
        cause: result.cause,
        isPermanent: remedies.find(({pattern}) => pattern.test(said))?.isPermanent ?? false,
      });
    }
    if (!sudo && result.stdout.toString('utf8').trim() !== '0')
      this.description += ' as a user that is not root (--sudo or --ssh-user root)';
  }

  async run(argv: readonly string[], signal: AbortSignal, take?: TakeOutput): Promise<Buffer> {
    this.#commands++;
    const log = join(this.#folder, `log-${this.#commands}`);
    const command = remoteCommand(endingWithInput(argv, this.#options.sudo === true));
    const result = await runProgram('ssh', [...this.#arguments(log, ['ControlMaster=no']), command], {signal, take, openInput: true});
    if (result.exitCode === 0) return result.stdout;
    const said = await readFile(log, 'utf8').catch(() => '');
    // ssh may ignore a shared connection that breaks.
    if (result.exitCode === sshFailed && (said !== '' || result.stderr.trim() === '')) {
      throw new CommandFailed(argv, {exitCode: null, stderr: lastLine(said) || 'the connection was lost', cause: result.cause});
    }
    throw new CommandFailed(argv, {...result, notFound: isProgramMissing(result)});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const signal = AbortSignal.timeout(3000);
    await runProgram('ssh', ['-o', `ControlPath=${this.#socket}`, '-O', 'exit', '--', this.#host], {signal});
    await rm(this.#folder, {recursive: true, force: true});
  }

  get #socket(): string {
    // `%` has a meaning in a ControlPath.
    return join(this.#folder, 'socket').replaceAll('%', '%%');
  }

  /** All arguments except the command. ssh uses the first value of a setting. */
  #arguments(log: string, settings: readonly string[]): readonly string[] {
    const {user, port, options = [], connectTimeoutMs = 10_000} = this.#options;
    const all = [
      `ControlPath=${this.#socket}`,
      ...settings,
      ...options,
      'BatchMode=yes',
      `ConnectTimeout=${Math.max(1, Math.ceil(connectTimeoutMs / 1000))}`,
      'Compression=yes',
      'LogLevel=ERROR',
      'RequestTTY=no',
      'RemoteCommand=none',
      'ClearAllForwardings=yes',
      'ForwardAgent=no',
      'ForwardX11=no',
      'PermitLocalCommand=no',
    ];
    return [
      '-E',
      log,
      ...all.flatMap(setting => ['-o', setting]),
      ...(user === undefined ? [] : ['-l', user]),
      ...(port === undefined ? [] : ['-p', String(port)]),
      '--',
      this.#host,
    ];
  }
}

/** The last message of ssh is the reason of its failure. */
function lastLine(said: string): string {
  return said.trim().split('\n').at(-1)?.trim() ?? '';
}

/** The line for the login shell of the node: every word quoted, and a PATH with the directories of the tools. */
function remoteCommand(argv: readonly string[]): string {
  return `env PATH="$PATH:${toolFolders}" ${argv.map(quoted).join(' ')}`;
}

/** What to do about a failure of ssh, by its message. */
function sshRemedy(said: string, host: string): string {
  return remedies.find(({pattern}) => pattern.test(said))?.remedy.replaceAll('NODE', () => host) ?? `try "ssh ${host}" by hand`;
}

/** The first match counts. */
const remedies: readonly {readonly pattern: RegExp; readonly remedy: string; readonly isPermanent?: true}[] = [
  {pattern: /System is booting up|pam_nologin/, remedy: 'it is starting and accepts no logins yet'},
  {
    pattern: /HOST IDENTIFICATION HAS CHANGED/,
    isPermanent: true,
    remedy:
      'its host key differs from the known one; if the node was reinstalled, remove the old key with "ssh-keygen -R NODE"; otherwise the connection may be intercepted',
  },
  {
    pattern: /Host key verification failed|host key is known/,
    isPermanent: true,
    remedy: 'its host key is not known here; check and accept it by "ssh NODE" once, or use --ssh-option StrictHostKeyChecking=accept-new',
  },
  {
    pattern: /Permission denied|Too many authentication failures/,
    isPermanent: true,
    remedy: 'the node took none of your keys; choose the user with --ssh-user and the key with ssh-add or --ssh-option IdentityFile=FILE',
  },
  {pattern: /Could not resolve hostname/, remedy: 'the name is not known here; try --ssh-address InternalIP or ExternalIP'},
  {pattern: /Connection refused/, remedy: 'nothing listens there; choose the port with --ssh-port or the address with --ssh-address'},
  {
    pattern: /timed out|No route to host|Network is unreachable/i,
    remedy: 'the address is not to be reached from here; try --ssh-address ExternalIP, or a jump host with --ssh-option ProxyJump=HOST',
  },
  {
    pattern: /Bad configuration option|Bad owner or permissions|keyword .* extra arguments/i,
    isPermanent: true,
    remedy: 'put your ssh configuration or --ssh-option right',
  },
];

export const sshAddressTypes = ['InternalIP', 'ExternalIP', 'Hostname'] as const;
export type SshAddressType = (typeof sshAddressTypes)[number];

/**
 * The host for ssh: the node's address of that type, or its Hostname if it has no InternalIP. Anything but an IP address or a host name is
 * refused.
 */
function sshHost(node: NodeInfo, type: SshAddressType = 'InternalIP'): string {
  const host = addressOf(node, type) ?? (type === 'ExternalIP' ? undefined : (addressOf(node, 'Hostname') ?? node.name));
  if (host === undefined) {
    const known = node.addresses.map(entry => `${entry.type} ${entry.address}`).join(', ');
    throw new Unreachable(`${node.name} has no ${type} (it has ${known || 'no addresses'}): choose another with --ssh-address`, {
      isPermanent: true,
    });
  }
  // The node's kubelet reports its addresses: they can be trusted no more than the node.
  const isHost = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(host) || (isIP(host) !== 0 && !host.includes('%'));
  if (!isHost)
    throw new Unreachable(
      `the ${type} of ${node.name}, ${JSON.stringify(host)}, is neither an IP address nor a host name: it is not given to ssh`,
      {isPermanent: true},
    );
  return host;
}

function addressOf({addresses}: NodeInfo, type: SshAddressType): string | undefined {
  return addresses.find(entry => entry.type === type)?.address;
}
