// `npm run bench:facts`: how much longer a small node is read because of the facts beside its rules, in one table. As root. The node is a
// network namespace with 30 pods on a bridge and 1,000 rules, and each command a process of its own, by `sh`, as in an exec session.
import process from 'node:process';
import {parseArgs} from 'node:util';
import {execa} from 'execa';
import {collectNode} from '../../src/collect/node/collect-node.ts';
import {CommandFailed, type Transport} from '../../src/collect/node/transport.ts';
import {Namespace} from '../e2e/kernel/namespace.ts';

const facts = /^(?:links|netconf|routes|ip-rules|ip6-rules)\.json$|^conntrack-stats|^(?:interface-)?sysctls$/;
const {values} = parseArgs({options: {runs: {type: 'string', default: '31'}, pods: {type: 'string', default: '30'}}});

await using node = await Namespace.open();
const pods = Array.from({length: Number(values.pods)}, (_, at) => at);
node.ip(['link set lo up', 'link add cni0 type bridge', 'address add 10.244.11.1/24 dev cni0', 'link set cni0 up'].join('\n'));
for (const at of pods) node.ip(`link add veth${at} type veth peer name peer${at}\nlink set veth${at} master cni0\nlink set veth${at} up`);
const rules = Array.from({length: 1000}, (_, at) => `-A INPUT -s 10.9.${at >> 8}.${at & 255}/32 -p tcp -m tcp --dport 80 -j ACCEPT\n`);
node.run('iptables-legacy-restore', [], `*filter\n:INPUT ACCEPT [0:0]\n${rules.join('')}COMMIT\n`);

const transport: Transport = {
  name: 'sh',
  open: async () => ({
    description: 'sh in a namespace',
    run: async (argv, signal) => {
      const [program, ...enter] = node.enter;
      const {stdout, stderr, exitCode} = await execa(program, [...enter, 'sh', '-c', 'exec "$0" "$@"', ...argv], {
        ...{reject: false, encoding: 'buffer', cancelSignal: signal},
      });
      if (exitCode === 0) return Buffer.from(stdout);
      throw new CommandFailed(argv, {exitCode: exitCode ?? null, stderr: Buffer.from(stderr).toString(), notFound: exitCode === 127});
    },
    [Symbol.asyncDispose]: async () => {},
  }),
};

async function timeOf(wants: (file: string) => boolean): Promise<number> {
  const start = performance.now();
  const read = await collectNode({name: 'node-a', addresses: [], pods: []}, transport, {
    ...{signal: new AbortController().signal, timeoutMs: 60_000, wants},
  });
  if (read.status !== 'read') throw new Error('the namespace could not be read');
  return performance.now() - start;
}

const times = {all: [] as number[], without: [] as number[]};
// In turn, so that what else the machine does hits both.
for (let run = 0; run < Number(values.runs); run++) {
  times.all.push(await timeOf(() => true));
  times.without.push(await timeOf(file => !facts.test(file)));
}
const median = (list: readonly number[]): number => Math.round(list.toSorted((a, b) => a - b)[list.length >> 1] ?? 0);
const [all, without] = [median(times.all), median(times.without)];
process.stdout.write(`| with facts | without | more |\n|---|---|---|\n| ${all} ms | ${without} ms | ${all - without} ms |\n`);
