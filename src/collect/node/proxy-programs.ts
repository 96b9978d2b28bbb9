import type {Buffer} from 'node:buffer';
import {misprintsOf} from '../../analyze/iptables/misprints.ts';
import {isMisprinted} from '../../analyze/nftables/nft-rules.ts';
import {families} from '../../model/address.ts';
import {isAtLeast} from '../../model/text.ts';
import {parseDumpHeader} from '../../parse/iptables/dump-chain.ts';
import {parseDumps} from '../../parse/iptables/iptables-save.ts';
import type {NodeCommand, Run} from './node-command.ts';
import {CommandFailed} from './transport.ts';

/**
 * Reads with the programs of kube-proxy's image what those of the host misprinted: in the mount namespace of kube-proxy, where the node has
 * a process of it. None where the host printed all rules as they are, which most versions do without a look at them.
 */
export async function misprintedCommands(read: ReadonlyMap<string, Buffer>, run: Run): Promise<readonly NodeCommand[]> {
  const commands = [...iptablesCommands(read), ...nftCommands(read)];
  const process = commands.length === 0 ? null : await proxyProcess(run);
  if (process === null) return [];
  return commands.map(({file, argv, isDump}) => ({
    file,
    isDump,
    variants: [{commands: [['nsenter', '-t', process, '-m', '--', ...argv]]}],
  }));
}

interface ProxyCommand {
  /** A file that the programs of the host did not give. */
  readonly file: string;
  readonly argv: readonly string[];
  readonly isDump: boolean;
}

function iptablesCommands(read: ReadonlyMap<string, Buffer>): readonly ProxyCommand[] {
  return families.flatMap(family => {
    const tool = family === 'IPv4' ? 'iptables' : 'ip6tables';
    const dump = read.get(`${tool}-save`);
    const header = dump === undefined ? null : parseDumpHeader(dump.toString('latin1', 0, 200).split('\n', 1)[0] ?? '');
    if (dump === undefined || header === null) return [];
    if (isAtLeast(header.version, [1, 8, 9]) && !dump.includes('[unsupported revision]')) return [];
    if (misprintsOf(new Map(parseDumps(dump, family).map(ruleset => [ruleset.family, ruleset]))).size === 0) return [];
    return [{file: `${tool}-${header.backend ?? 'nft'}-save`, argv: [`${tool}-save`], isDump: true}];
  });
}

/** Also where nft crashed. */
function nftCommands(read: ReadonlyMap<string, Buffer>): readonly ProxyCommand[] {
  const dump = read.get('nft.json');
  const isInUse = read.get('proxy-mode')?.includes('nftables') === true || read.get('nft-tables')?.includes('kube-proxy') === true;
  const isWrong = dump === undefined ? isInUse : isMisprinted(dump);
  return isWrong ? [{file: 'nft-ruleset.json', argv: ['nft', '-j', 'list', 'ruleset'], isDump: false}] : [];
}

/** The process ID of kube-proxy; null if there is none, or nothing that finds it. */
async function proxyProcess(run: Run): Promise<string | null> {
  for (const argv of [
    ['pidof', 'kube-proxy'],
    ['pgrep', '-x', 'kube-proxy'],
  ]) {
    try {
      const found = /^\d+/.exec((await run(argv)).toString('latin1').trim())?.[0];
      if (found !== undefined) return found;
    } catch (error) {
      if (!(error instanceof CommandFailed) || (error.exitCode === null && !error.notFound)) throw error;
    }
  }
  return null;
}
