import {EditableDump} from '../../editable-dump.ts';
import {readFixture, snapshotOf} from '../../fixtures.ts';
import {Scenario} from '../../scenario.ts';
import {withoutKubeProxy} from './beside-nftables.ts';
import {ipsets, mergedDump, type ThirdPartyRules} from './merge.ts';

const capture = 'ipvs/1.36';

/** node-a of a capture of IPVS mode, with the rules of a program in iptables, changed or not. */
export async function scenarioBesideIpvs(
  {name}: Pick<ThirdPartyRules, 'name'>,
  change: (rules: EditableDump) => void = () => undefined,
): Promise<Scenario> {
  const rules = new EditableDump(merged(mergedDump(name), readFixture(`captures/${capture}/nodes/node-a/iptables-save`).toString()));
  change(rules);
  const given = new Scenario(await snapshotOf(capture));
  given.file('node-a', 'iptables-save', rules.toString());
  given.file('node-a', 'ipset-save', `${readFixture(`captures/${capture}/nodes/node-a/ipset-save`).toString()}${ipsets(name) ?? ''}`);
  return given;
}

/** The rules of a program, with the jumps of IPVS mode where those of iptables mode were in each base chain. */
function merged(program: string, ipvs: string): string {
  const others = new Set(withoutKubeProxy(program).split('\n'));
  const [mine, own] = [tables(program), tables(ipvs)];
  const text = [...new Set([...mine.keys(), ...own.keys()])].map(table => {
    const [lines, added] = [mine.get(table) ?? [], own.get(table) ?? []];
    const [kept, declared] = [lines.filter(line => others.has(line)), new Set(lines.flatMap(chainOf))];
    const chains = added.filter(line => line.startsWith(':') && !chainOf(line).every(name => declared.has(name) && isBase(name)));
    const jumps = Map.groupBy(
      added.filter(line => line.startsWith('-A ')),
      line => chainOf(line)[0] ?? '',
    );
    const rules = lines.flatMap(line => {
      const [chain = ''] = chainOf(line);
      if (!line.startsWith('-A ') || others.has(line)) return others.has(line) && line.startsWith('-A ') ? [line] : [];
      const here = jumps.get(chain) ?? [];
      jumps.delete(chain);
      return here;
    });
    return [`*${table}`, ...kept.filter(line => line.startsWith(':')), ...chains, ...rules, ...[...jumps.values()].flat(), 'COMMIT'];
  });
  return `${text.flat().join('\n')}\n`;
}

function tables(dump: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  let table: string[] = [];
  for (const line of dump.split('\n')) {
    if (line.startsWith('*')) {
      table = [];
      found.set(line.slice(1), table);
    } else if (/^(?::|-A )/.test(line)) table.push(line);
  }
  return found;
}

function chainOf(line: string): readonly string[] {
  return /^(?::|-A )(\S+)/.exec(line)?.slice(1) ?? [];
}

function isBase(name: string): boolean {
  return /^(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/.test(name);
}
