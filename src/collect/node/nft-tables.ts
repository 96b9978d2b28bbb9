import {Buffer} from 'node:buffer';
import {partition} from '../../model/lists.ts';
import {chainByChain} from '../../parse/iptables/dump-chain.ts';
import {beginningOf, defaultBackend, tools, parallel, type NodeCommand, type Run} from './node-command.ts';
import {CommandFailed} from './transport.ts';

// As `nft list tables`, which reads all rules to print the names: 0.7 s and 110 MB where iptables-nft holds 30,000.
const listNames = ['nft', 'list', 'flowtables'];

export const nftNames: NodeCommand = {file: 'nft-tables', partOf: 'nft.json', variants: [{commands: [listNames], join: tableNames}]};

/** Noted where iptables of IPv6 are left out: then its tables are as well, in which nothing else is. */
export const ipv6LeftOut: NodeCommand = {file: 'ipv6-left-out', partOf: 'ip6tables-save', variants: []};

/** All tables; their names were read before. */
export function nftTables(read: ReadonlyMap<string, Buffer>): NodeCommand {
  return nftJson((run, lacks) => readNftTables(read, run, lacks));
}

/**
 * All tables by one command, where iptables-nft holds few rules; otherwise by their names, which `note` gets in both cases. For a node on
 * which each command is a connection of its own.
 */
export function nftAtOnce(read: ReadonlyMap<string, Buffer>, note: (names: Buffer) => void): NodeCommand {
  return nftJson(async (run, lacks) => {
    const ruleset = await readRuleset(read, run);
    const names = ruleset?.names ?? tableNames([await run(listNames)]);
    note(names);
    return ruleset?.document ?? readNftTables(new Map([...read, [nftNames.file, names]]), run, lacks);
  });
}

function nftJson(inParts: NodeCommand['inParts'] & {}): NodeCommand {
  return {file: 'nft.json', inParts, variants: [{commands: ['ip', 'ip6'].map(family => nftTable(family, 'kube-proxy')), join: joinNft}]};
}

/** In bytes. To list the rules of iptables-nft once more would take long. */
const smallDump = 1_000_000;

async function readRuleset(
  read: ReadonlyMap<string, Buffer>,
  run: Run,
): Promise<{readonly names: Buffer; readonly document: Buffer} | null> {
  const sizes = tools.flatMap(tool => (defaultBackend(tool, read) === 'nft' ? (read.get(`${tool}-save`)?.length ?? 0) : 0));
  if (sizes.some(size => size > smallDump)) return null;
  try {
    return splitRuleset(await run(['nft', '-j', 'list', 'ruleset']), read);
  } catch (error) {
    if (error instanceof CommandFailed && error.exitCode !== null && !error.notFound) return null;
    throw error;
  }
}

/** Of tables that iptables-save shows, only that they exist. Null if it is no list, or not a whole one. */
function splitRuleset(document: Buffer, read: ReadonlyMap<string, Buffer>): {readonly names: Buffer; readonly document: Buffer} | null {
  if (!/\]\s*\}\s*$/.test(document.toString('latin1', Math.max(0, document.length - 16)))) return null;
  const starts: number[] = [];
  for (let at = document.indexOf(tableMark); at >= 0; at = document.indexOf(tableMark, at + 1)) starts.push(at);
  const parts = starts.map((start, index) => document.subarray(start, starts[index + 1] ?? document.lastIndexOf(']')));
  const names: string[] = [];
  const kept = parts.map(part => {
    const declared = declaration.exec(part.toString('utf8', 0, 2000))?.[0];
    const {family = '', name = ''} =
      declared === undefined ? {} : (JSON.parse(declared) as {table: {family?: string; name?: string}}).table;
    names.push(`${family} ${name}\n`);
    return declared !== undefined && isShownByIptables(read, family, name) ? Buffer.from(`${declared}, `) : part;
  });
  // A large document is not copied.
  if (kept.every((part, index) => part === parts[index])) return {names: Buffer.from(names.join('')), document};
  const head = document.subarray(0, starts[0] ?? document.lastIndexOf(']'));
  return {names: Buffer.from(names.join('')), document: Buffer.concat([...joinedParts([head, ...kept]), Buffer.from(']}\n')])};
}

/** Each ends with a comma, but for the last one. */
function joinedParts(parts: readonly Buffer[]): readonly Buffer[] {
  const last = parts.at(-1) ?? Buffer.alloc(0);
  const end = /,?\s*$/.exec(last.toString('latin1', Math.max(0, last.length - 8)))?.[0] ?? '';
  return [...parts.slice(0, -1), last.subarray(0, last.length - end.length)];
}

/** In a string the quotes would be escaped. */
const tableMark = '{"table": {';
const declaration = /^\{"table": \{(?:"(?:[^"\\]|\\.)*"|[^"{}])*\}\}/;

/** `ip kube-proxy`, one a line, in the order of creation. */
function tableNames(outputs: readonly Buffer[]): Buffer {
  const names = Buffer.concat(outputs)
    .toString('utf8')
    .matchAll(/^table (\S+ .+) \{$/gm);
  return Buffer.from([...names].map(([, name = '']) => `${name}\n`).join(''));
}

function nftTable(family: string, name: string): readonly string[] {
  return ['nft', '-j', 'list', 'table', family, name];
}

/**
 * All tables in the order of creation, as `nft -j list ruleset` prints them. Of those that iptables-save shows, only that they exist: to
 * list the rules of iptables-nft once more would take long. Null if the names are not known.
 */
async function readNftTables(read: ReadonlyMap<string, Buffer>, run: Run, lacks: (reason: string) => void): Promise<Buffer | null> {
  const names = read.get('nft-tables')?.toString('utf8').split('\n').slice(0, -1);
  if (names === undefined) return null;
  // Commands that read a bundle load this file, and not the package.
  const {default: pLimit} = await import('p-limit');
  const limit = pLimit(parallel);
  const tables = names.map(async line => {
    const [family = '', name = ''] = line.split(/ (.*)/);
    const declared = {table: {family, name}};
    if (isShownByIptables(read, family, name)) return {declared, document: null};
    try {
      return {declared, document: await limit(run, nftTable(family, name))};
    } catch (error) {
      if (!(error instanceof CommandFailed) || error.exitCode === null) throw error;
      // It was deleted since then.
      if (error.stderr.includes('No such file or directory')) return null;
      if (name === 'kube-proxy') throw error;
      lacks(`a table of ${family}: ${error.message}`);
      return null;
    }
  });
  const found = (await Promise.all(tables)).filter(table => table !== null);
  const declarations = Buffer.from(JSON.stringify({nftables: found.map(({declared}) => declared)}));
  return joinNft([declarations, ...found.flatMap(({document}) => document ?? [])]);
}

/** Iptables-nft writes tables of these names, or those are left out. A comment says where it understands only a part of one, or nothing. */
function isShownByIptables(read: ReadonlyMap<string, Buffer>, family: string, name: string): boolean {
  const tool = tools.find(name => name === {ip: 'iptables', ip6: 'ip6tables'}[family]);
  if (tool === undefined || !/^(?:raw|mangle|nat|filter|security)$/.test(name)) return false;
  if (family === 'ip6' && read.has(ipv6LeftOut.file)) return true;
  return [`${tool}-save`, `${tool}-nft-save`].some(file => {
    if (file === `${tool}-save` && defaultBackend(tool, read) !== 'nft') return false;
    // All tables were read for it, and those that do nothing left out.
    if (beginningOf(read, file).includes(chainByChain)) return true;
    const at = read.get(file)?.indexOf(`\n*${name}\n`) ?? -1;
    return (
      at >= 0 &&
      !read
        .get(file)
        ?.toString('latin1', Math.max(0, at - 300), at)
        .includes(`# Table \`${name}' `)
    );
  });
}

/** Merges documents into one list, a truncated one last. They are not parsed, because they can be large. */
function joinNft(documents: readonly Buffer[]): Buffer {
  const [whole, truncated] = partition(documents, document => /\]\s*\}\s*$/.test(document.toString('latin1', document.length - 16)));
  const lists = whole.map(document => document.subarray(document.indexOf('[') + 1, document.lastIndexOf(']')));
  const rest = truncated[0]?.subarray(truncated[0].indexOf('[') + 1);
  const parts = [...lists.filter(({length}) => length > 0), ...(rest === undefined ? [] : [rest])];
  const separated = parts.flatMap((part, index) => (index === 0 ? [part] : [Buffer.from(', '), part]));
  return Buffer.concat([Buffer.from('{"nftables": ['), ...separated, Buffer.from(rest === undefined ? ']}\n' : '')]);
}
