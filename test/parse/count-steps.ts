// Prints, for each kind of text, how many steps it takes at one, two and four times a length, as JSON. V8 counts all of them only in an
// interpreter that drops nothing: steps.test.ts starts this with its flags.
import {Session} from 'node:inspector';
import process from 'node:process';
import {diagnose} from '../../src/diagnose.ts';
import {parseConntrack} from '../../src/parse/conntrack.ts';
import {parseIpsetSave} from '../../src/parse/ipvs/ipset-save.ts';
import {parseIpvsadm} from '../../src/parse/ipvs/ipvsadm-save.ts';
import {snapshotOfText} from '../../src/parse/pasted/split-text.ts';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {isInSet} from '../../src/trace/iptables/match-set.ts';
import {walkPacket} from '../trace/walks.ts';
import {allPorts, senderClasses, SenderConditions} from '../../src/trace/sender-space.ts';
import {environment, packetOf, ruleset} from '../trace/send.ts';

const address = (index: number) => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`;
const lines = (n: number, line: (index: number) => string) => Array.from({length: n}, (_, index) => line(index)).join('\n');

/** A text of `n` pieces. */
const texts: Readonly<Record<string, (n: number) => string>> = {
  'a table that is begun again': n => lines(n, () => '*nat'),
  'a dump that is repeated': n => lines(n, () => '*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -j RETURN\nCOMMIT\n'),
  'tables of many names': n => lines(n, index => `*t${index}\n:A${index} - [0:0]\nCOMMIT`),
  'rules of many chains': n => lines(n, index => `-A KUBE-SEP-${index} -p tcp -j DNAT --to-destination ${address(index)}:80`),
  'rules that jump from chain to chain': n => lines(n, index => `-A C${index} -j C${index + 1}`),
  'the same rule': n => lines(n, () => '-A INPUT -j ACCEPT'),
  'rules of two chains by turns': n => `*nat\n${lines(n, index => `-A C${index % 2} -s ${address(index)} -j RETURN`)}\nCOMMIT`,
  'rules of seven chains by turns, of no table': n => lines(n, index => `-A KUBE-X${index % 7} -s ${address(index)} -j DROP`),
  'listed chains': n =>
    lines(n, index => `Chain KUBE-SVC-${index} (1 references)\ntarget prot opt source destination\nACCEPT all -- any any\n`),
  'chains of nft': n => `table ip kube-proxy {\n${lines(n, index => `\tchain c${index} {\n\t\tip saddr 10.0.0.1 drop\n\t}`)}\n}`,
  'servers of IPVS': n => lines(n, index => `-A -t ${address(index)}:80 -s rr\n-a -t ${address(index)}:80 -r 10.1.2.3:80 -m -w 1`),
  'Services that kubectl lists beside rules': n =>
    `*nat\n:KUBE-SERVICES - [0:0]\n${lines(n, index => `-A KUBE-SERVICES -d ${address(index)}/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-${index}`)}
COMMIT\nNAME  TYPE  CLUSTER-IP  EXTERNAL-IP  PORT(S)  AGE\n${lines(n, index => `web-${index}  ClusterIP  ${address(index + 70_000)}  <none>  80/TCP  5d`)}`,
  'lines of nothing': n => `*nat\nCOMMIT\n${'\n'.repeat(n)}`,
};

const flags = {source: '10.0.0.1', destination: '10.96.0.10', port: '53', protocol: 'tcp', 'local-address': ['10.0.0.9']};

/** Checks a text, and answers a packet about it. */
function answer(text: string): void {
  const snapshot = snapshotOfText('pasted', Buffer.from(`${text}\n`));
  if (snapshot === null) throw new Error('the text is no dump');
  diagnose(snapshot, {toolVersion: '0'});
  askNodes(flags, snapshot);
}

const files: Readonly<Record<string, (n: number) => unknown>> = {
  conntrack: n => [
    ...parseConntrack(
      lines(n, index => `udp 17 29 src=${address(index)} dst=10.96.0.10 sport=1 dport=53`),
      'udp',
    ),
  ],
  'ipvsadm-save': n => parseIpvsadm(lines(n, index => `-A -t ${address(index)}:80 -s rr`)),
  'ipset-save of three parts': n => inSet('hash:net,port,net', n, index => `${address(index)},tcp:80,10.0.0.0/8`),
  'chains that drop some senders': n => chainsAbout(n, 4, index => `-s ${address(index)}/32 -j DROP`),
  'chains about eight networks': n => chainsAbout(n, 8, index => `-s ${address(index << 8)}/24 -p tcp -m tcp --dport 80 -j REJECT`),
  'chains about ten ranges of senders': n =>
    chainsAbout(n, 10, index => `-m iprange --src-range ${address(index << 2)}-${address((index << 2) + 2)} -j DROP`),
  'ipset-save of a list of sets': n =>
    inSet(
      'list:set',
      n,
      index => `m${index}`,
      lines(n, index => `create m${index} hash:ip\nadd m${index} ${address(index)}`),
    ),
};

function inSet(type: string, n: number, member: (index: number) => string, before = ''): boolean | null {
  const {sets} = parseIpsetSave(`${before}\ncreate s ${type}\n${lines(n, index => `add s ${member(index)}`)}`);
  const packets = Array.from({length: n}, (_, index) => packetOf({from: address(index), to: '10.96.1.1', port: 80}));
  // A packet may be any of as many senders as the set has members.
  return (
    packets
      .slice(0, 3)
      .map(packet => isInSet(sets, 's', packet, 'src,dst,dst'))
      .at(-1) ?? null
  );
}

/** Walks each sender whom chains of some rules tell apart. */
function chainsAbout(n: number, each: number, rule: (index: number) => string): void {
  const chains = Math.ceil(n / each);
  const calls = lines(chains, index => `-A FORWARD -j BAN-${index}`);
  const rules = ruleset({filter: `${calls}\n${lines(n, index => `-A BAN-${Math.floor(index / each)} ${rule(index)}`)}`});
  const packet = {...packetOf({from: '10.0.0.1', to: '10.96.1.1', port: 80}), client: 'source' as const};
  const {classes} = senderClasses({
    spaces: [{address: [[10n << 24n, (11n << 24n) - 1n]], port: allPorts}],
    pick: ({address: [[value] = [0n]]}) => ({address: value, port: 40_000}),
    walk: (sender, note) => {
      const source = {...packet.source, value: sender.address, text: address(Number(sender.address & 0xffffffn))};
      return walkPacket(rules, {...packet, source}, {...environment(), sender: new SenderConditions(note)});
    },
  });
  // In longer chains, senders of whom the rules say the same are one class.
  if (classes.length <= (each > 8 ? chains : n)) throw new Error(`${classes.length} classes`);
}

interface Coverage {
  readonly result: readonly {readonly url: string; readonly functions: readonly {readonly ranges: readonly {readonly count: number}[]}[]}[];
}

/**
 * How often the blocks of our sources run, the same on each machine. What a function of the language does by itself, such as copying a list,
 * is one step.
 */
function countSteps(work: () => unknown): number {
  const session = new Session();
  session.connect();
  call(session, 'Profiler.enable');
  call(session, 'Profiler.startPreciseCoverage', {callCount: true, detailed: true});
  work();
  const {result} = call(session, 'Profiler.takePreciseCoverage') as Coverage;
  session.disconnect();
  const ranges = result.filter(({url}) => url.includes('/src/')).flatMap(({functions}) => functions.flatMap(({ranges: all}) => all));
  return ranges.reduce((sum, {count}) => sum + count, 0);
}

/** A session in the same thread answers at once. */
function call(session: Session, method: string, params: object = {}): unknown {
  let answered: unknown = null;
  session.post(method, params, (error, result) => {
    if (error !== null) throw error;
    answered = result;
  });
  return answered;
}

const kinds = {...Object.fromEntries(Object.entries(texts).map(([name, make]) => [name, (n: number) => answer(make(n))])), ...files};
const steps = Object.entries(kinds).map(([name, work]) => {
  // What is loaded once is loaded before.
  work(10);
  return [name, [300, 600, 1200].map(n => countSteps(() => work(n)))];
});
process.stdout.write(JSON.stringify(Object.fromEntries(steps)));
