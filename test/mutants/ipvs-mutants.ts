import {diagnose} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {withFiles} from '../fixtures.ts';

/** One change to what a healthy node in IPVS mode holds. */
export interface IpvsMutant {
  readonly file: string;
  /** Line of the file from 1, or the address. */
  readonly place: string;
  readonly change: string;
  readonly before: string;
  readonly content: string;
}

/** Every virtual server, real server, element, set, address and base rule deleted, and each changed in the ways that it can be. */
export function ipvsMutants(node: NodeDump): readonly IpvsMutant[] {
  return [
    ...mutantsOf(node, 'ipvsadm-save', serverChanges),
    ...mutantsOf(node, 'ipset-save', memberChanges),
    ...['iptables-save', 'ip6tables-save'].flatMap(file => mutantsOf(node, file, ruleChanges)),
    ...addressMutants(node),
  ];
}

type Changes = (line: string) => readonly (readonly [change: string, after: readonly string[]])[];

function mutantsOf(node: NodeDump, file: string, changes: Changes): readonly IpvsMutant[] {
  const lines = read(node, file).split('\n');
  return lines.flatMap((before, at) =>
    changes(before).map(([change, after]) => ({
      ...{file, change, before, place: String(at + 1)},
      content: lines.toSpliced(at, 1, ...after).join('\n'),
    })),
  );
}

/** Without its virtual server, a real server stands alone in the file and is not read. */
const serverChanges: Changes = line => {
  if (line.startsWith('-A '))
    return [
      ['deleted', []],
      ['scheduler', [line.replace(/-s \S+/, '-s sh')]],
      ['persistence', [line.includes(' -p ') ? line.replace(/ -p \d+/, '') : `${line} -p 77`]],
    ];
  if (!line.startsWith('-a ')) return [];
  const port = /-r (.*):(\d+) /;
  return [
    ['deleted', []],
    ['drained', [line.replace('-w 1', '-w 0')]],
    ['weight', [line.replace('-w 1', '-w 5')]],
    ['routed', [line.replace(' -m ', ' -g ')]],
    ['moved', [line.replace(port, (_, address: string, number: string) => `-r ${address}:${Number(number) + 1} `)]],
    ['joined', [line, line.replace(port, (_, address: string) => `-r ${address}:9999 `)]],
  ];
};

const memberChanges: Changes = line => {
  if (line.startsWith('create ')) return [['type', [line.replace(/hash:\S+|bitmap:port range \S+/, 'hash:mac')]]];
  if (!line.startsWith('add ')) return [];
  const port = line.replace(/(?<=:|PORT-(?:LOCAL-)?(?:TCP|UDP) |PORT )(\d+)(?=,|$)/, number => String(Number(number) + 1));
  return [['deleted', []], ...(port === line ? [] : [['moved', [port]] as const])];
};

const ruleChanges: Changes = line => {
  if (!line.startsWith('-A ')) return [];
  const target = / -j (?:ACCEPT|RETURN|KUBE-\S+)$/;
  return [['deleted', []], ...(target.test(line) ? [['dropped', [line.replace(target, ' -j DROP')]] as const] : [])];
};

function addressMutants(node: NodeDump): readonly IpvsMutant[] {
  const file = 'kube-ipvs0.json';
  const [device] = JSON.parse(read(node, file)) as readonly {addr_info: {local: string}[]}[];
  const infos = (device?.addr_info ?? []).filter(({local}) => !local.startsWith('fe80'));
  const without = infos.map(({local}) => ({
    ...{file, change: 'deleted', before: local, place: local},
    content: JSON.stringify([{...device, addr_info: infos.filter(info => info.local !== local)}]),
  }));
  const more = {family: 'inet', local: '10.96.77.77', prefixlen: 32, scope: 'global'};
  return [
    ...without,
    {file, change: 'added', before: '', place: more.local, content: JSON.stringify([{...device, addr_info: [...infos, more]}])},
  ];
}

function read(node: NodeDump, file: string): string {
  return node.read(file)?.toString() ?? '';
}

/** What is found on a mutant and was not found before. */
export class IpvsLaboratory {
  readonly mutants: readonly IpvsMutant[];
  readonly #snapshot: Snapshot;
  readonly #node: NodeDump;
  readonly #known: ReadonlySet<string>;

  constructor(snapshot: Snapshot) {
    const [node] = snapshot.nodes;
    if (node === undefined) throw new Error(`${snapshot.origin} has no node`);
    this.#snapshot = snapshot;
    this.#node = node;
    this.mutants = ipvsMutants(node);
    this.#known = new Set(this.#findings(node).map(identity));
  }

  examine({file, content}: IpvsMutant): readonly Finding[] {
    return this.#findings(withFiles(this.#node, {[file]: content})).filter(finding => !this.#known.has(identity(finding)));
  }

  #findings(node: NodeDump): readonly Finding[] {
    const {findings} = diagnose({...this.#snapshot, nodes: [node]}, {toolVersion: '0.0.0', nodes: name => name === node.name});
    return findings.filter(finding => finding.node !== undefined);
  }
}

function identity({code, severity, message}: Finding): string {
  return JSON.stringify([code, severity, message]);
}
