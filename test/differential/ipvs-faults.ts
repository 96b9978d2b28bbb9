import type {NodeDump} from '../../src/model/snapshot.ts';
import type {Random} from '../bench/random.ts';
import {ipvsMutants} from '../mutants/ipvs-mutants.ts';
import {withFiles} from '../rendered-node.ts';
import {changeRules} from './rule-faults.ts';

/** A node of IPVS mode on which something is wrong with one virtual server, real server, element, address or rule. */
export function changeIpvs(node: NodeDump, random: Random): NodeDump {
  if (random.chance(0.5)) {
    const [first, ...rest] = ipvsMutants(node);
    if (first === undefined) return node;
    const {file, content} = random.pick([first, ...rest]);
    return withFiles(node, new Map([[file, content]]));
  }
  const [file, change] = random.pick<readonly [string, Change]>([
    ['iptables-save', changeRules],
    ['iptables-save', changeRules],
    ['ip6tables-save', changeRules],
    ['ipvsadm-save', moreServers],
    ['ipset-save', moreMembers],
    ['ipset-save', moreMembers],
  ]);
  return withFiles(node, new Map([[file, change(node.read(file)?.toString() ?? '', random)]]));
}

type Change = (text: string, random: Random) => string;

/** A virtual or real server that is not expected, or a part of them that is gone. */
function moreServers(text: string, random: Random): string {
  const lines = text.split('\n').filter(line => line !== '');
  const at = random.below(Math.max(1, lines.length));
  const line = lines[at] ?? '';
  const moved = line.replace(/(-[tu] (?:\[[^\]]*|[\d.]*))(\d)(\]?):(\d+)/, (_, start: string, digit: string, end: string, port: string) =>
    random.chance(0.5) ? `${start}${(Number(digit) + 5) % 10}${end}:${port}` : `${start}${digit}${end}:${Number(port) + 1}`,
  );
  const changed = random.chance(0.5) && line.startsWith('-A') ? [moved, line] : random.chance(0.3) ? [] : [line];
  return `${[...lines.slice(0, at), ...changed, ...lines.slice(at + 1)].join('\n')}\n`;
}

/** An element of one set in another set of the same type, or of a Service port in another form. */
function moreMembers(text: string, random: Random): string {
  const lines = text.split('\n').filter(line => line !== '');
  const elements = lines.flatMap((line, at) => (line.startsWith('add ') ? [at] : []));
  const at = elements[random.below(Math.max(1, elements.length))];
  if (at === undefined) return text;
  const line = lines[at] ?? '';
  const [, set = '', element = ''] = line.split(' ');
  const type = typeOf(lines, set);
  const others = lines.flatMap(other =>
    other.startsWith('create ') && typeOf(lines, other.split(' ')[1] ?? '') === type ? [other.split(' ')[1] ?? ''] : [],
  );
  const target = others[random.below(Math.max(1, others.length))] ?? set;
  return `${lines.toSpliced(at + 1, 0, `add ${target} ${element}`).join('\n')}\n`;
}

function typeOf(lines: readonly string[], set: string): string {
  return (
    lines
      .find(line => line.startsWith(`create ${set} `))
      ?.split(' ')
      .slice(2)
      .join(' ') ?? ''
  );
}
