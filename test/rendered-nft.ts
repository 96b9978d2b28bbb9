import type {ExpectedTable} from '../src/expect/nftables/expected-table.ts';
import type {SetShape} from '../src/expect/nftables/set-elements.ts';

/** An expected table as `nft list ruleset` prints it. */
export function nftText(table: ExpectedTable): string {
  const objects = table.ports.map(item => table.objectsOf(item));
  const sets = [...table.baseSets, ...objects.flatMap(({sets: own}) => own)];
  const chains = [
    ...table.baseRules.map(({name, base, rules}) => {
      const hook = base === null ? [] : [`type ${base.type} hook ${base.hook} priority ${base.priority}; policy ${base.policy};`];
      return block(`chain ${name}`, [...hook, ...rules]);
    }),
    ...objects.flatMap(({chains: own}) => [...own].map(([name, rules]) => block(`chain ${name}`, rules))),
  ];
  return `table ${table.id} {\n${[...sets.map(shape => setText(table, shape)), ...chains].join('\n')}}\n`;
}

function setText(table: ExpectedTable, {name, keyTypes, valueTypes, flags, timeout}: SetShape): string {
  const elements = [...(table.set(name)?.elements.values() ?? [])].map(
    ({key, value, comment}) => `${key}${comment === null ? '' : ` comment "${comment}"`}${value === null ? '' : ` : ${value}`}`,
  );
  const type = `type ${keyTypes.join(' . ')}${valueTypes === null ? '' : ` : ${valueTypes.join(' . ')}`}`;
  return block(`${valueTypes === null ? 'set' : 'map'} ${name}`, [
    type,
    ...(timeout === null ? [] : ['size 65535', 'flags dynamic,timeout', `timeout ${timeout}s`]),
    ...(timeout !== null || flags.length === 0 ? [] : [`flags ${flags.join(',')}`]),
    ...(elements.length === 0 ? [] : [`elements = { ${elements.join(', ')} }`]),
  ]);
}

function block(head: string, lines: readonly string[]): string {
  return `\t${head} {\n${lines.map(line => `\t\t${line}\n`).join('')}\t}\n`;
}
