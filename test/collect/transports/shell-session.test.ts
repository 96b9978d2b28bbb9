import type {Buffer} from 'node:buffer';
import {spawn} from 'node:child_process';
import {chmodSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {setTimeout} from 'node:timers/promises';
import {describe, expect, onTestFinished, test} from 'vitest';
import {createKubeApi} from '../../../src/collect/kube/create-kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {collectNode} from '../../../src/collect/node/collect-node.ts';
import {type CollectedNode, CommandFailed, type NodeInfo, type NodeShell, type Transport} from '../../../src/collect/node/transport.ts';
import {execTransport} from '../../../src/collect/transports/exec.ts';
import {runProgram} from '../../../src/collect/transports/root-command.ts';
import {openShellSessions} from '../../../src/collect/transports/shell-session.ts';
import {isRunning} from '../../processes.ts';
import {startApiServer} from '../../stand-in/api-server.ts';
import {hostPod} from './fake-kube-api.ts';

const {signal} = new AbortController();

const plain: NodeShell = {
  description: 'here',
  async run(argv, stop, take) {
    const [program = '', ...args] = argv;
    const result = await runProgram(program, args, {signal: stop, take});
    if (result.exitCode === 0) return result.stdout;
    throw new CommandFailed(argv, {...result});
  },
  async [Symbol.asyncDispose]() {},
};

/** Sessions of a shell of this machine, and how many there were. */
async function openSessions(
  program = 'sh',
  args: readonly string[] = [],
  lifetimeMs = 60_000,
): Promise<{readonly shell: NodeShell; readonly count: () => number}> {
  let count = 0;
  const shell = await openShellSessions(
    plain,
    ({signal: stop, take, begin}) => {
      count++;
      const child = spawn(program, args, {stdio: ['pipe', 'pipe', 'ignore'], detached: true});
      child.stdin.on('error', () => {});
      child.stdout.on('data', take);
      begin(text => child.stdin.write(text));
      // A container engine ends nothing when the client is gone.
      stop.addEventListener('abort', () => child.stdin.end(() => child.stdout.destroy()));
      return new Promise((resolve, reject) => {
        child.on('error', reject).on('close', resolve);
        stop.addEventListener('abort', reject);
      });
    },
    lifetimeMs,
  );
  if (shell === null) throw new Error(`${program} does not answer`);
  onTestFinished(async () => shell[Symbol.asyncDispose]());
  return {shell, count: () => count};
}

const node = (script: string): readonly string[] => [process.execPath, '-e', script];

async function outcome(running: Promise<Buffer>): Promise<unknown> {
  return running.then(
    stdout => stdout.toString('latin1'),
    ({exitCode, stderr, notFound}: CommandFailed) => ({exitCode, stderr: stderr.trimEnd(), notFound}),
  );
}

describe('commands in sessions of a shell', () => {
  const commands: readonly (readonly string[])[] = [
    ['printf', 'no line end'],
    ['true'],
    ['printf', '\\n\\n'],
    ['printf', '%s', `it's "quoted" $HOME \`x\` \\ \n and more`],
    node('process.stdout.write(Buffer.from(Array.from({length: 3_000_000}, (_, at) => at * 7)))'),
    node('console.error("Error: no table\\nsecond line"); console.log("a part"); process.exitCode = 3'),
    node('console.log("well"); console.error("# Warning: legacy tables present")'),
    ['sh', '-c', 'exit 137'],
    ['cat'],
  ];

  test.each(['dash', 'bash'])('%s gives each the same output, exit code and messages as a session of its own', async program => {
    const {shell, count} = await openSessions(program);
    const [together, alone] = await Promise.all([
      Promise.all(commands.map(argv => outcome(shell.run(argv, signal)))),
      Promise.all(commands.slice(0, -1).map(argv => outcome(plain.run(argv, signal)))),
    ]);
    expect(together).toEqual([...alone, '']);
    expect(count()).toBe(2);
  });

  test('one whose program does not exist is known as that, and the next one has its own output', async () => {
    const {shell} = await openSessions();
    const [lacking, next] = await Promise.allSettled([shell.run(['no-such-program', '-j'], signal), shell.run(['echo', 'next'], signal)]);
    expect(lacking).toMatchObject({reason: {notFound: true, message: 'no-such-program not found'}});
    expect(String((next as PromiseFulfilledResult<Buffer>).value)).toBe('next\n');
  });

  test('a long one does not hold up the next one', async () => {
    const {shell} = await openSessions();
    const file = join(mkdtempSync(join(tmpdir(), 'svc-trace-shell-')), 'ended');
    onTestFinished(() => rmSync(dirname(file), {recursive: true}));
    const long = shell.run(['sh', '-c', `until [ -e ${file} ]; do sleep 0.02; done; echo long`], signal);
    await shell.run(['touch', file], signal);
    expect(String(await long)).toBe('long\n');
  });

  test('one that is stopped takes no other with it', async () => {
    const {shell} = await openSessions();
    const stop = new AbortController();
    let size = 0;
    const endless = shell.run(['yes'], stop.signal, part => {
      size += part.length;
      if (size > 1_000_000) stop.abort(new Error('too much'));
    });
    const others = Array.from({length: 6}, (_, index) => shell.run(['echo', String(index)], signal));
    await expect(endless).rejects.toMatchObject({exitCode: null});
    expect((await Promise.all(others)).map(String)).toEqual(['0\n', '1\n', '2\n', '3\n', '4\n', '5\n']);
  });

  test.each(['dash', 'bash'])(
    'one that hangs in %s when its client is gone is ended after the lifetime, and nothing else stays',
    async program => {
      const sleeps = (seconds: number): boolean => isRunning(['sleep', String(seconds)]);
      const {shell} = await openSessions(program, [], 3000);
      const stop = new AbortController();
      const hangs = shell.run(['sh', '-c', 'trap "" TERM; sleep 4711'], stop.signal);
      await expect.poll(() => sleeps(4711)).toBe(true);
      stop.abort();
      await expect(hangs).rejects.toMatchObject({exitCode: null});
      await expect.poll(() => sleeps(4711)).toBe(false);
      const {shell: other} = await openSessions(program, [], 1_234_000);
      await other.run(['true'], signal);
      await expect.poll(() => sleeps(1234)).toBe(true);
      await other[Symbol.asyncDispose]();
      await expect.poll(() => sleeps(1234)).toBe(false);
    },
  );

  test('one that comes in the second half of the lifetime has a new session, and is not ended with the old one', async () => {
    const {shell, count} = await openSessions('sh', [], 6000);
    await shell.run(['true'], signal);
    await setTimeout(3100);
    const before = count();
    expect(String(await shell.run(['sh', '-c', 'sleep 3.3; echo whole'], signal))).toBe('whole\n');
    expect(count()).toBe(before + 1);
  });

  test('output that is cut by the end of the shell is no output', async () => {
    const {shell} = await openSessions();
    await expect(shell.run(['sh', '-c', 'echo half; kill -9 $PPID; sleep 0.1'], signal)).rejects.toMatchObject({
      exitCode: null,
      message: 'sh did not end by itself: the connection was lost',
    });
  });

  test('a shell that gets no input is none', async () => {
    expect(await openShellSessions(plain, async () => {}, 60_000)).toBeNull();
    await expect(openSessions('true')).rejects.toThrow('true does not answer');
  });
});

const dump = '# Generated by iptables-save v1.8.11 (nf_tables) on Thu\n*nat\n:KUBE-SVC-A - [0:0]\nCOMMIT\n';

/** Programs of an image, as scripts. */
const programs: Readonly<Record<string, string>> = {
  'iptables-save': `case "$1" in --version) echo 'iptables-save v1.8.11 (nf_tables)';; *) printf '${dump.replaceAll('\n', '\\n')}';; esac`,
  'ip6tables-save': `printf '${dump.replaceAll('\n', '\\n')}'`,
  'iptables-legacy-save': 'true',
  nft: `case "$*" in *ruleset) echo '{"nftables": [{"table": {"family": "ip", "name": "kube-proxy"}}]}';; 'list flowtables') printf 'table ip kube-proxy {\\n}\\n';; *) echo '{"nftables": [{"table": {"family": "ip", "name": "kube-proxy"}}]}';; esac`,
  conntrack: 'case "$*" in *-S) echo cpu=0 found=1;; *ipv6) echo no IPv6 >&2; exit 1;; *) echo "udp 17 30 src=10.0.0.1";; esac',
  ip: `a='[{"ifname":"eth0","addr_info":[{"local":"2001:db8::1"}]}]'; r='[{"priority":0}]'; d='[{"dst":"default"}]'; n='[{"interface":"all","forwarding":true}]'
case "$*" in *-batch*) printf '%s\\n' "$a" "$n" "$r" "$d"; exit 1;; *netconf) echo "$n";; *rule) echo "$r";; *route*) echo "$d";; *) echo "$a";; esac`,
  'kube-proxy': 'echo Kubernetes v1.36.2',
};

/** Reads a node whose image has these programs; `sessions` are the commands of its exec sessions. */
async function read(
  nodes: readonly string[],
  hasShell: boolean,
  {
    inTurn = false,
    without = [],
    others = {},
  }: {readonly inTurn?: boolean; readonly without?: readonly string[]; readonly others?: typeof programs} = {},
): Promise<{readonly read: readonly CollectedNode[]; readonly sessions: readonly string[]}> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-image-'));
  onTestFinished(() => rmSync(folder, {recursive: true}));
  for (const name of ['grep', 'cat', ...(hasShell ? ['sh'] : [])]) symlinkSync(`/bin/${name}`, join(folder, name));
  for (const [name, script] of Object.entries({...programs, ...others})) {
    rmSync(join(folder, name), {force: true});
    if (without.includes(name)) continue;
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(folder, name), 0o755);
  }
  const pods = nodes.map(name => ({
    ...hostPod(`kube-proxy-${name}`, {node: name}),
    spec: {nodeName: name, hostNetwork: true, containers: [{name: 'kube-proxy', image: 'registry.example/kube-proxy:v1.36.2'}]},
  }));
  const server = await startApiServer({
    objects: {pods},
    nodePage: () => null,
    nodes: Object.fromEntries(nodes.map(name => [name, {path: folder}])),
  });
  onTestFinished(() => server.close());
  const api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig}, {environment: {}}), {backoff: 1});
  onTestFinished(() => api.close());
  const transport: Transport = execTransport(api);
  const infos = nodes.map((name): NodeInfo => ({name, addresses: [], pods: pods.filter(({spec}) => spec.nodeName === name)}));
  const reading = (info: NodeInfo) => collectNode(info, transport, {signal, timeoutMs: 60_000});
  const collected: CollectedNode[] = [];
  if (inTurn) for (const info of infos) collected.push(await reading(info));
  else collected.push(...(await Promise.all(infos.map(reading))));
  return {read: collected, sessions: server.requests.flatMap(({argv}) => (argv.length === 0 ? [] : [argv.join(' ')]))};
}

describe('a node that is read by exec', () => {
  test('takes two sessions where its image has a shell, and gives the files that it gives without one', async () => {
    const [withShell, without] = [await read(['node-a'], true), await read(['node-a'], false)];
    expect(withShell.sessions).toEqual(['sh', 'sh']);
    const [a, b] = [withShell.read[0], without.read[0]];
    expect(a?.status).toBe('read');
    expect(a?.files).toEqual(b?.files);
    expect(a?.files.filter(file => !/sysctls|^conntrack|nft.json/.test(file) && String(a.read(file)) !== String(b?.read(file)))).toEqual(
      [],
    );
  });

  test('takes six sessions without a shell; an image is asked once more for a shell and for its version', async () => {
    const {sessions, read: nodes} = await read(['node-a', 'node-b', 'node-c'], false, {inTurn: true});
    const ofImage = ['sh', 'kube-proxy --version'];
    expect(sessions.filter(command => ofImage.includes(command))).toEqual(ofImage);
    const programs = sessions.filter(command => !ofImage.includes(command)).map(command => command.split(' ', 2).join(' '));
    // The switches are those of this machine. Where node ports on 127.0.0.1 are off, each interface is asked.
    const isOff = readFileSync('/proc/sys/net/ipv4/conf/all/route_localnet', 'utf8') === '0\n';
    const each = ['iptables-save', 'ip6tables-save', 'ip -d', 'grep -asHP', 'nft -j', 'ip -6', ...(isOff ? ['grep -sH'] : [])];
    expect(programs).toEqual([...each, ...each, ...each]);
    expect(nodes.map(({status}) => status)).toEqual(['read', 'read', 'read']);
    expect(nodes.map(node => String(node.read('kube-proxy-version')))).toEqual(['v1.36.2\n', 'v1.36.2\n', 'v1.36.2\n']);
  });

  test('takes five sessions of programs in nftables mode, and one more where an address of IPv6 has rules of policy routing', async () => {
    const rules = '*filter\\nCOMMIT\\n';
    const saved = `printf '# Generated by iptables-save v1.8.11 (nf_tables) on Thu\\n${rules}'`;
    const tables =
      '{"nftables": [{"table": {"family": "ip", "name": "kube-proxy"}}, {"map": {"family": "ip", "table": "kube-proxy", "name": "service-ips"}}]}';
    const others = {'iptables-save': saved, 'ip6tables-save': saved, nft: `echo '${tables}'`};
    const {sessions} = await read(['node-a'], false, {others});
    const programs = sessions.map(command => command.split(' ', 1).join()).filter(program => program !== 'sh' && program !== 'kube-proxy');
    expect(programs.toSorted()).toEqual(['grep', 'ip', 'ip', 'ip6tables-save', 'iptables-save', 'nft']);
  });

  test('takes six sessions of programs in IPVS mode too, whose virtual servers the kernel lists', async () => {
    const list = ['TCP  0A600064:0050 rr  ', '  -> 0AF40003:1F90      Masq    1      2          1         '];
    const others = {
      ip: `echo '[{"ifname":"kube-ipvs0","addr_info":[{"local":"10.96.0.100"}]}]'`,
      ipset: 'echo create KUBE-CLUSTER-IP hash:ip,port',
      grep: `/bin/grep "$@"; case "$*" in */proc/net/ip_vs*) printf '/proc/net/ip_vs:%s\\n' ${list.map(line => `'${line}'`).join(' ')};; esac`,
    };
    const {sessions, read: nodes} = await read(['node-a'], false, {others});
    expect(new Set(sessions.map(command => command.split(' ', 1).join()))).toEqual(
      new Set(['sh', 'kube-proxy', 'iptables-save', 'ip6tables-save', 'ip', 'grep', 'nft', 'ipset']),
    );
    expect(String(nodes[0]?.read('ipvsadm-save'))).toBe('-A -t 10.96.0.100:80 -s rr\n-a -t 10.96.0.100:80 -r 10.244.0.3:8080 -m -w 1\n');
  });

  test('what an image lacks is asked for once in a run, and missing on each of its nodes', async () => {
    const {sessions, read: nodes} = await read(['node-a', 'node-b'], false, {inTurn: true, without: ['ip']});
    expect(sessions.filter(command => command.startsWith('ip '))).toHaveLength(1);
    for (const {missing} of nodes)
      expect(missing.map(({file, reason}) => `${file}: ${reason}`)).toContainEqual(
        expect.stringMatching(/^addresses.json: ip not found: .*executable file not found/),
      );
  });

  test('an image without a shell, iptables and nft is left, and named', async () => {
    const {sessions, read: nodes} = await read(['node-a'], false, {without: ['iptables-save', 'ip6tables-save', 'nft']});
    expect(sessions).toEqual(['sh', 'iptables-save', 'ip6tables-save', 'nft --version']);
    expect(nodes[0]?.problems).toMatchObject([
      {message: expect.stringContaining('no iptables-save in kube-system/kube-proxy-node-a on node-a')},
    ]);
  });

  test('an image without a shell is asked for one once', async () => {
    const {sessions, read: nodes} = await read(['node-a', 'node-b', 'node-c'], false);
    expect(nodes.map(({status}) => status)).toEqual(['read', 'read', 'read']);
    expect(sessions.filter(command => command === 'sh')).toHaveLength(1);
  });
});
