import type {NftChain, NftElement, NftRuleset, NftSet, NftTable} from '../src/model/nft-ruleset.ts';

/** The ruleset as `nft list ruleset` prints it, with one element on each line, and as `nft -f` reads it. Priorities are numbers. */
export function formatNftRuleset({tables}: NftRuleset): string {
  return [...tables.values()].map(formatTable).join('\n');
}

function formatTable(table: NftTable): string {
  const head = table.dormant ? ['\tflags dormant'] : [];
  const blocks = [...[...table.sets.values()].map(formatSet), ...[...table.chains.values()].map(formatChain)];
  return `table ${table.id} {\n${head.map(line => `${line}\n`).join('')}${blocks.join('\n')}}\n`;
}

function formatSet(set: NftSet): string {
  const flags = [...(isDynamic(set) ? ['dynamic'] : []), ...set.flags];
  const lines = [
    typeText(set),
    ...(set.size === null ? [] : [`size ${set.size}`]),
    ...(flags.length === 0 ? [] : [`flags ${flags.join(',')}`]),
    ...(set.timeout === null ? [] : [`timeout ${formatNftSeconds(set.timeout)}`]),
    ...(set.elements.size === 0
      ? []
      : [`elements = { ${[...set.elements.values()].map(element => formatElement(element, set)).join(',\n\t\t\t     ')} }`]),
  ];
  return block(set.valueTypes === null ? 'set' : 'map', set.name, lines);
}

/** JSON does not show whether a set is dynamic; sets whose elements packets add and remove are. */
function isDynamic({dynamic, flags, size}: NftSet): boolean {
  return dynamic ?? (flags.includes('timeout') && size !== null);
}

function typeText({keyTypes, valueTypes}: NftSet): string {
  const types = [...keyTypes, ...(valueTypes ?? [])];
  const isTypeof = types.some(type => type.startsWith('typeof '));
  const join = (parts: readonly string[]): string => parts.map(part => part.replace('typeof ', '')).join(' . ');
  return `${isTypeof ? 'typeof' : 'type'} ${join(keyTypes)}${valueTypes === null ? '' : ` : ${join(valueTypes)}`}`;
}

function formatElement({key, value, comment}: NftElement, {keyTypes}: NftSet): string {
  const parts = key.split(' . ');
  const text = parts.map((part, index) => (keyTypes[index] === 'ifname' ? `"${part}"` : part)).join(' . ');
  return [text, ...(comment === null ? [] : [`comment "${comment}"`]), ...(value === null ? [] : [`: ${value}`])].join(' ');
}

function formatChain(chain: NftChain): string {
  const {base} = chain;
  const devices = base?.devices === undefined ? '' : ` devices = { ${base.devices.map(name => `"${name}"`).join(', ')} }`;
  const rules = chain.text();
  return block('chain', chain.name, [
    ...(base === null ? [] : [`type ${base.type} hook ${base.hook}${devices} priority ${base.priority}; policy ${base.policy};`]),
    ...(rules === '' ? [] : rules.split('\n')),
  ]);
}

function block(kind: string, name: string, lines: readonly string[]): string {
  return `\t${kind} ${name} {\n${lines.map(line => `\t\t${line}\n`).join('')}\t}\n`;
}

/** Seconds as nft prints them: `3h`, `1d10m`. */
function formatNftSeconds(seconds: number): string {
  const parts: string[] = [];
  let left = seconds;
  for (const [unit, size] of Object.entries({d: 86_400, h: 3600, m: 60, s: 1})) {
    if (left >= size) parts.push(`${Math.floor(left / size)}${unit}`);
    left %= size;
  }
  return parts.join('') || '0s';
}
