import {Buffer} from 'node:buffer';
import type {Backend} from '../../model/ruleset.ts';
import {parseDumpHeader} from '../../parse/iptables/dump-chain.ts';
import type {NodeCommand} from './node-command.ts';

/** The dumps of the backend that the default tools do not read, by their version; none if that is not known. */
export function otherBackends(read: ReadonlyMap<string, Buffer>): readonly NodeCommand[] {
  return read.has('iptables-version') ? tools.flatMap(tool => backendsBut(tool, backendOf(beginningOf(read, 'iptables-version')))) : [];
}

export const tools = ['iptables', 'ip6tables'] as const;
type Tool = (typeof tools)[number];

/** The backend that the default tool reads; null if that is not known, or nothing was read with it. */
export function defaultBackend(tool: Tool, read: ReadonlyMap<string, Buffer>): Backend | null {
  const header = beginningOf(read, `${tool}-save`);
  // The headers of 1.8.4 to 1.8.7 do not name it.
  const isNamed = header !== '' && parseDumpHeader(header.split('\n', 1)[0] ?? '')?.backend !== null;
  const said = isNamed ? header : beginningOf(read, 'iptables-version') || header;
  return read.has(`${tool}-save`) && said !== '' ? backendOf(said) : null;
}

function backendOf(said: string): Backend {
  return said.includes('nf_tables') ? 'nft' : 'legacy';
}

/** The beginning of a file; empty if it was not read. */
export function beginningOf(read: ReadonlyMap<string, Buffer>, file: string): string {
  return read.get(file)?.toString('latin1', 0, 200) ?? '';
}

export function backendsBut(tool: Tool, current: Backend | null): readonly NodeCommand[] {
  return (['legacy', 'nft'] as const)
    .filter(backend => backend !== current)
    .map(backend => ({
      file: `${tool}-${backend}-save`,
      variants: [{commands: [[`${tool}-${backend}-save`]], join: onlyWithTables}],
      isDump: true,
    }));
}

/** A backend without tables is not in use. */
function onlyWithTables(outputs: readonly Buffer[]): Buffer | null {
  const dump = Buffer.concat(outputs);
  return dump.includes('\n*') || dump[0] === 0x2a ? dump : null;
}
