import type {Snapshot} from '../../src/model/snapshot.ts';
import {parseIpvsadm} from '../../src/parse/ipvs/ipvsadm-save.ts';
import {snapshotOf} from '../fixtures.ts';
import {answerText, askSnapshot, askText, breach, nodeAddresses, type Question} from './ask.ts';
import type {RealServer, VirtualServer} from '../../src/model/virtual-server.ts';
import type {Form} from './forms.ts';
import {joinHostPort} from '../../src/model/address.ts';

/** What a node holds in IPVS mode, as its tools print it. */
interface IpvsText {
  readonly iptables: string;
  readonly ipset: string;
  /** `ipvsadm-save -n`. */
  readonly save: string;
  /** `ipvsadm -L -n`. */
  readonly list: string;
  readonly servers: readonly VirtualServer[];
}

/** Rules, sets and virtual servers of one node in one text, in the forms in which people paste them. */
function ipvsForms({iptables, ipset, save, list, servers}: IpvsText): readonly Form[] {
  const beside = (text: string) => `$ sudo iptables-save\n${iptables}$ sudo ipset save\n${ipset}${text}`;
  const whole = (name: string, text: string): Form => ({name, text: () => beside(text), isWhole: true});
  const part = (name: string, text: string): Form => ({name, text: () => beside(text), isWhole: false});
  const first = servers[0];
  if (first === undefined) throw new Error('no virtual server');
  const one = joinHostPort(first.address, first.port);
  const stats = listing('Conns   InPkts  OutPkts  InBytes OutBytes', servers, () => '       12      345      300   45678K   56789M');
  const rate = listing('CPS    InPPS   OutPPS    InBPS   OutBPS', servers, () => '       1        2        3        4        5');
  const thresholds = listing('Uthreshold Lthreshold ActiveConn InActConn', servers, () => '0          0          1          2         ');
  const persistent = listing(
    'Weight    PersistConn ActiveConn InActConn',
    servers,
    ({weight}) => `${weight}         0           1          2`,
  );
  return [
    whole('ipvsadm-save -n', `$ sudo ipvsadm-save -n\n${save}`),
    whole('ipvsadm -Sn', `# ipvsadm -Sn\n${save}`),
    whole('ipvsadm -Ln', `root@node-a:~# ipvsadm -Ln\n${list}`),
    whole('ipvsadm -L -n in a pod', `$ kubectl -n kube-system exec kube-proxy-x7 -- ipvsadm -L -n\n${list}`),
    whole('ipvsadm -Ln in Markdown', `\`\`\`console\n[root@node ~]# ipvsadm -Ln\n${list}\`\`\`\n`),
    whole('ipvsadm -Ln in a reply', list.replace(/^/gm, '> ')),
    whole('ipvsadm -Ln and --stats', `# ipvsadm -Ln\n${list}# ipvsadm -Ln --stats\n${stats}`),
    whole('--rate and ipvsadm -Ln', `# ipvsadm -Ln --rate\n${rate}# ipvsadm -Ln\n${list}`),
    whole('ipvsadm -Ln and connections', `# ipvsadm -Ln\n${list}# ipvsadm -Lnc\n${connections}`),
    part('ipvsadm -Ln --stats', `# ipvsadm -Ln --stats\n${stats}`),
    part('ipvsadm -Ln --stats --exact', `# ipvsadm -Ln --stats --exact\n${stats.replaceAll('K', '000').replaceAll('M', '000000')}`),
    part('ipvsadm -Ln --rate', `# ipvsadm -Ln --rate\n${rate}`),
    part('ipvsadm -Ln --thresholds', `# ipvsadm -Ln --thresholds\n${thresholds}`),
    part('ipvsadm -Ln --persistent-conn', `# ipvsadm -Ln --persistent-conn\n${persistent}`),
    part('ipvsadm -Lnc', `# ipvsadm -Lnc\n${connections}`),
    part('ipvsadm -L with names', `# ipvsadm -L\n${list.replace(/^(TCP|UDP)( +)\S+:(\d+)/gm, '$1$2node-a:http-$3')}`),
    part('ipvsadm -Ln -t', `# ipvsadm -Ln -t ${one}\n${oneOf(list, one)}`),
    part('ipvsadm -Ln | grep', `# ipvsadm -Ln | grep -A1 ${first.address}\n${oneOf(list, one)}`),
    part('rows of a listing', `It has this:\n\n${oneOf(list, one)}`),
    part('ipvsadm -Ln with rows left out', list.replace(/^((?:.*\n){3})(?:.*\n){2}/, '$1...\n')),
    part('ipvsadm -Ln that ends in the middle', list.slice(0, Math.floor(list.length * 0.6))),
    part('two nodes', `# ipvsadm -Ln\n${list}# ssh node-b ipvsadm -Ln\n${list.replaceAll('-> 10.244.11.', '-> 10.244.99.')}`),
    part('no virtual servers', ''),
  ];
}

/** `TCP  10.96.0.1:443` with its figures, as `ipvsadm --stats` lines them up, or with its scheduler. */
function listing(heading: string, servers: readonly VirtualServer[], figures: (real: RealServer) => string): string {
  const isSchedulerShown = /^(?:Uthreshold|Weight)/.test(heading);
  const rows = servers.flatMap(({protocol, address, port, scheduler, realServers}) => {
    const name = `${protocol}  ${joinHostPort(address, port)}`;
    const [any] = realServers;
    return [
      isSchedulerShown || any === undefined ? `${name} ${scheduler}` : `${name.padEnd(33)} ${figures(any)}`,
      ...realServers.map(real => `  -> ${real.hostPort.padEnd(28)} ${figures(real)}`),
    ];
  });
  const title = 'IP Virtual Server version 1.2.1 (size=4096)';
  return `${[title, `${'Prot LocalAddress:Port'.padEnd(33)} ${heading}`, '  -> RemoteAddress:Port', ...rows].join('\n')}\n`;
}

const connections = [
  'IPVS connection entries',
  'pro expire state       source             virtual            destination',
  'TCP 00:33  FIN_WAIT    10.244.11.9:44444  10.96.1.1:80       10.244.11.4:8080',
  '',
].join('\n');

/** The row of a virtual server and those of its real servers. */
function oneOf(list: string, hostPort: string): string {
  const rows = list.split('\n');
  const start = rows.findIndex(row => row.includes(` ${hostPort} `));
  const end = rows.findIndex((row, index) => index > start && !row.startsWith('  ->'));
  return `${rows.slice(start, end).join('\n')}\n`;
}

/**
 * Compares every form of a capture in IPVS mode with the bundle, and returns the breaches of the law. Few kernels of test machines have IPVS:
 * the texts are made from the capture. A form that shows everything must answer as the node does where the addresses of
 * kube-ipvs0 are given; without them the outcome is undetermined. `step`: one of so many virtual servers is tested.
 */
export async function ipvsBreaches(capture: string, step: number): Promise<readonly string[]> {
  const {text, snapshot, questions} = await material(capture, step);
  const bound = [...nodeAddresses, ...new Set(text.servers.map(({address}) => address))];
  const found: string[] = [];
  for (const {name, text: textOf, isWhole} of ipvsForms(text)) {
    const pasted = textOf();
    const answers = {given: await askText(pasted, questions, bound), unknown: await askText(pasted, questions)};
    for (const [index, question] of questions.entries()) {
      const right = askSnapshot(question, snapshot);
      const asked = `${name}: ${question.source} to ${question.destination} ${question.port}`;
      for (const [how, all] of Object.entries(answers)) {
        const answer = all[index] ?? new Map<string, number>();
        const wrong = breach(answer, right);
        if (wrong !== null) found.push(`${asked}: ${wrong}`);
        else if (isWhole && how === 'given' && answerText(answer) !== answerText(right))
          found.push(`${asked}: ${answerText(answer)}, though the form shows that it is ${answerText(right)}`);
      }
    }
  }
  return found;
}

interface Material {
  readonly text: IpvsText;
  readonly snapshot: Snapshot;
  readonly questions: readonly Question[];
}

async function material(capture: string, step: number): Promise<Material> {
  const whole = await snapshotOf(capture);
  const [node] = whole.nodes;
  if (node === undefined) throw new Error(`${capture} has no node`);
  const read = (file: string) => node.read(file)?.toString('utf8') ?? '';
  const save = read('ipvsadm-save');
  const servers = parseIpvsadm(save).servers.filter(({family}) => family === 'IPv4');
  const text = {iptables: read('iptables-save'), ipset: read('ipset-save'), save, list: read('ipvsadm-list.txt'), servers};
  return {text, snapshot: {...whole, nodes: [node]}, questions: questionsFor(text, step)};
}

function questionsFor({servers}: IpvsText, step: number): readonly Question[] {
  const sources = ['10.244.11.4', '198.51.100.9', '172.18.0.11'] as const;
  const places = [
    ...servers
      .filter((_, index) => index % step === 0)
      .map(({address, port, protocol}) => ({destination: address, port: String(port), protocol: protocol.toLowerCase()})),
    {destination: '9.9.9.9', port: '443'},
    {destination: '172.18.0.11', port: '22'},
  ];
  return places.flatMap((place, index) => ({source: sources[index % 3] ?? sources[0], ...place}));
}
