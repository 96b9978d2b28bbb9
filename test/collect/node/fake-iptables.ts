import {CommandFailed} from '../../../src/collect/node/transport.ts';

/** Many rules about other Services, as a node of a big cluster has them. */
const others = Array.from(
  {length: 1000},
  (_, index) =>
    `-A KUBE-SERVICES -d 100.64.${index >> 8}.${index & 255}/32 -p tcp -m comment --comment "other/svc-${index} cluster IP" -m tcp --dport 80 -j KUBE-SVC-${String(
      index,
    )
      .padStart(16, 'A')
      .replace(/[0189]/g, 'B')}`,
);

interface NodeSpec {
  readonly version?: string;
  /** The node has rules of 1,000 other Services too. */
  readonly many?: boolean;
}

/** Answers `iptables -t TABLE -S [CHAIN]` from a dump of iptables-save, as the nft backend does; null where iptables fails. */
export function iptablesOutput(
  dump: string,
  [program = '', ...args]: readonly string[],
  {version = 'v1.8.9 (nf_tables)', many = true}: NodeSpec = {},
): string | null {
  if (args[0] === '--version') return `${program} ${version}\n`;
  const [, table = '', , chain] = args;
  const chains = tablesOf(dump).get(table) ?? new Map<string, readonly string[]>();
  const lines = chain === undefined ? [...chains.values()].flat() : chains.get(chain);
  return lines === undefined ? null : `${[...lines, ...(many && chain === 'KUBE-SERVICES' ? others : [])].join('\n')}\n`;
}

export function fakeIptables(dump: string, node: NodeSpec = {}): (argv: readonly string[]) => Promise<Buffer> {
  return async argv => {
    const output = iptablesOutput(dump, argv, node);
    if (output === null) throw new CommandFailed(argv, {exitCode: 1, stderr: 'iptables: No chain/target/match by that name.'});
    return Buffer.from(output, 'latin1');
  };
}

type Tables = ReadonlyMap<string, ReadonlyMap<string, readonly string[]>>;

/** Of the dumps so far: a big one is not parsed for each of its chains. */
const parsed = new Map<string, Tables>();

/** What `iptables -S CHAIN` prints, by table and chain. */
function tablesOf(dump: string): Tables {
  const known = parsed.get(dump);
  if (known !== undefined) return known;
  const tables = new Map<string, Map<string, string[]>>();
  let chains = new Map<string, string[]>();
  for (const line of dump.split('\n')) {
    const [, name = '', policy = ''] = /^:(\S+) (\S+)/.exec(line) ?? [];
    const of = /^-A (\S+)/.exec(line)?.[1];
    if (line.startsWith('*')) {
      chains = new Map();
      tables.set(line.slice(1), chains);
    } else if (name !== '') chains.set(name, [policy === '-' ? `-N ${name}` : `-P ${name} ${policy}`]);
    else if (of !== undefined) chains.get(of)?.push(line);
  }
  parsed.set(dump, tables);
  return tables;
}
