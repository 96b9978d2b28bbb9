import {Buffer} from 'node:buffer';
import {partition, uniqueBy} from '../../model/lists.ts';
import {parseDumpHeader} from '../../parse/iptables/dump-chain.ts';
import {beginningOf, otherBackends} from './backends.ts';
import {hasIPv6, jointOnly} from './joint-reads.ts';
import type {NodeCommand} from './node-command.ts';
import {furtherCommands, versionCommand} from './node-commands.ts';
import type {NodeReader} from './node-reader.ts';
import {nftAtOnce, nftNames} from './nft-tables.ts';

/**
 * Reads a node on which each command is a connection of its own, as by exec into an image without a shell: what one program can tell at once
 * is asked at once, and what others have told already is not asked. `first` are the first commands that are wanted.
 */
export async function readInFewSessions(
  reading: NodeReader,
  {
    first,
    read,
    wants,
  }: {
    readonly first: readonly NodeCommand[];
    readonly read: (commands: readonly NodeCommand[]) => Promise<void>;
    readonly wants: (file: string) => boolean;
  },
): Promise<void> {
  const {files} = reading;
  const wanted = (commands: readonly NodeCommand[]) => commands.filter(({file}) => wants(file));
  await read([...first.filter(({file}) => !later.has(file)), ...wanted(jointOnly)]);
  const version = versionIn(beginningOf(files, 'iptables-save'));
  if (version === null) await read(wanted([versionCommand]));
  else if (wants(versionCommand.file)) reading.note(versionCommand, version);
  const ipv6Rules = hasIPv6(files.get('addresses.json')) ? first.filter(({file}) => file === 'ip6-rules.json') : [];
  const nft = nftAtOnce(files, names => reading.note(nftNames, names));
  const needless = (file: string): boolean =>
    [nft.file, 'kube-ipvs0.json'].includes(file) || (file.endsWith('-legacy-save') && files.get('legacy-tables')?.length === 0);
  const all = uniqueBy([...otherBackends(files), ...furtherCommands(files)], ({file}) => file).filter(({file}) => !needless(file));
  const [afterNft, others] = partition(wanted(all), ({file}) => file.endsWith('-nft-save'));
  await read([...wanted([nft]), ...ipv6Rules, ...others]);
  const names = files.get(nftNames.file)?.toString('utf8');
  await read(names === undefined || /^ip6? (?:raw|mangle|nat|filter|security)$/m.test(names) ? afterNft : []);
}

const later: ReadonlySet<string> = new Set(['ip6-rules.json', nftNames.file]);

/** As `iptables-save --version` prints it; null where the header of a dump does not name the backend. */
function versionIn(dump: string): Buffer | null {
  const header = parseDumpHeader(dump.split('\n', 1)[0] ?? '');
  if (header === null || header.backend === null) return null;
  return Buffer.from(`iptables-save v${header.version} (${header.backend === 'nft' ? 'nf_tables' : 'legacy'})\n`);
}
