import {conntrackCommand, conntrackFile, ipvsListCommand, ipvsTotalsCommand, natCommand} from '../../collect/node/node-command.ts';
import {errorText} from '../../model/text.ts';
import {CommandFailed, type NodeShell, type TakeOutput} from '../../collect/node/transport.ts';
import type {Family} from '../../model/address.ts';
import {ConntrackCounter, type ConntrackCounts} from '../../parse/conntrack.ts';
import {NatCounterReader, type NatCounters} from '../../parse/iptables/nat-counters.ts';
import {type IpvsStats, parseIpvsadmStats} from '../../parse/ipvs/ipvsadm-stats.ts';
import {type NodeSample, destinationAddresses, wantedChains, wantedConnections} from '../../traffic/measure-port.ts';
import type {NodeSurvey} from '../../traffic/node-survey.ts';
import type {Clock} from '../clock.ts';

interface SampleRun {
  readonly shell: NodeShell;
  readonly survey: NodeSurvey;
  /** The programs that print the node's rules, by family. */
  readonly programs: ReadonlyMap<Family, string>;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Open connections are not asked for. */
  readonly withoutConntrack?: true;
}

/**
 * Reads the current counters of a node. Rejects if the node cannot be reached. A counter that the node does not have is missing in the
 * sample, with the reason.
 */
export async function readSample(run: SampleRun): Promise<NodeSample> {
  const {survey, clock} = run;
  const missing: Missing = {};
  const families = [...new Set(survey.ports.map(({port}) => port.family))];
  const began = clock.now();
  let [at, width] = [began, 0];
  let onNode: NodeSample['onNode'];
  // The time of the sample is that of the read that new connections are computed from.
  const timed = async <T>(isSource: boolean, read: Promise<T>): Promise<T> => {
    const result = await read;
    if (isSource) [at, width] = [(began + clock.now()) / 2, clock.now() - began];
    return result;
  };
  const [nat, connections, ipvs] = await Promise.all([
    timed(
      survey.mode === 'iptables',
      readNat(run, survey.mode === 'iptables' ? families : [], {missing, tell: time => (onNode = bothTimes(onNode, time))}),
    ),
    timed(survey.mode === 'nftables', run.withoutConntrack ? Promise.resolve(null) : readConnections(run, families, missing)),
    timed(survey.mode === 'ipvs', readIpvs(run, survey.mode === 'ipvs' ? [ipvsTotalsCommand, ipvsListCommand] : [], missing)),
  ]);
  return {at, width, onNode, nat, connections, ipvs, missing};
}

/** The families of a node are read side by side. */
function bothTimes(one: NodeSample['onNode'], other: NonNullable<NodeSample['onNode']>): NonNullable<NodeSample['onNode']> {
  if (one === undefined) return other;
  const from = Math.min(one.at - one.width / 2, other.at - other.width / 2);
  const to = Math.max(one.at + one.width / 2, other.at + other.width / 2);
  return {at: (from + to) / 2, width: to - from};
}

type Missing = {counters?: string; conntrack?: string; ipvs?: string};

/** `tell`: takes the time of a read by the node's clock. */
async function readNat(
  run: SampleRun,
  families: readonly Family[],
  {missing, tell}: {readonly missing: Missing; readonly tell: (time: NonNullable<NodeSample['onNode']>) => void},
): Promise<ReadonlyMap<Family, NatCounters>> {
  const counters = new Map<Family, NatCounters>();
  await Promise.all(
    families.map(async family => {
      const program = run.programs.get(family);
      if (program === undefined) return;
      const reader = new NatCounterReader(wantedChains(run.survey, family));
      try {
        const timed = await readTimed(run, natCommand(program), family);
        if (timed !== null) {
          tell(timed.time);
          counters.set(family, timed.counters);
          return;
        }
        await runInto(run, natCommand(program), part => reader.add(part));
        counters.set(family, reader.result());
      } catch (error) {
        missing.counters = failed(error);
      }
    }),
  );
  return counters;
}

/**
 * The counters with the node's own times: before the command starts, and when its first line comes, because it gets all rules from the
 * kernel before it prints one. Null where the node has no shell, or nothing complete came.
 */
async function readTimed(run: SampleRun, argv: readonly string[], family: Family) {
  const reader = new NatCounterReader(wantedChains(run.survey, family));
  let head = Buffer.alloc(0);
  const take = (part: Buffer): void => {
    if (head.length < maxHead) head = Buffer.concat([head, part.subarray(0, maxHead)]);
    reader.add(part);
  };
  try {
    await runInto(run, ['sh', '-c', timedScript, 'sh', ...argv], take);
  } catch (error) {
    failed(error);
    return null;
  }
  const [from, to] = [...head.toString('latin1').matchAll(/^# uptime (\d+\.\d+) /gm)].map(([, seconds]) => Number(seconds) * 1000);
  const counters = reader.result();
  if (from === undefined || to === undefined || !counters.complete || !counters.counted) return null;
  return {counters, time: {at: (from + to) / 2, width: to - from}};
}

const maxHead = 1000;

/** Lines of times are comments to `iptables-save`'s readers. */
const timedScript = [
  'up() { read -r now < /proc/uptime && echo "# uptime $now"; }',
  'up; "$@" | { IFS= read -r line; up; printf "%s\\n" "$line"; exec cat; }',
].join('; ');

/** By the program, or from the kernel's own file if the program is missing. */
async function readConnections(run: SampleRun, families: readonly Family[], missing: Missing): Promise<ConntrackCounts | null> {
  const options = wantedConnections(run.survey);
  try {
    const counter = new ConntrackCounter(options);
    for (const family of families)
      for (const argv of conntrackCommands(run.survey, family)) await runInto(run, argv, part => counter.add(part));
    return counter.result();
  } catch (error) {
    missing.conntrack = failed(error);
    if (!(error instanceof CommandFailed && error.notFound)) return null;
  }
  try {
    const counter = new ConntrackCounter(options);
    await runInto(run, conntrackFile, part => counter.add(part));
    delete missing.conntrack;
    return counter.result();
  } catch (error) {
    failed(error);
    missing.conntrack = 'the node has no conntrack program, and its kernel no /proc/net/nf_conntrack';
    return null;
  }
}

/** All connections of a family, or those to the few addresses that are asked about: the node's program filters, and little is sent. */
function conntrackCommands(survey: NodeSurvey, family: Family): readonly (readonly string[])[] {
  const name = family === 'IPv4' ? 'ipv4' : 'ipv6';
  const addresses = destinationAddresses(survey, family);
  return addresses.length > maxFilters ? [conntrackCommand(name)] : addresses.map(address => conntrackCommand(name, address));
}

/** Each filter costs the node a bit more than half of what the whole table costs it, without what is sent. */
const maxFilters = 2;

async function readIpvs(run: SampleRun, commands: readonly (readonly string[])[], missing: Missing): Promise<readonly IpvsStats[]> {
  const read = commands.map(async argv => {
    try {
      return [parseIpvsadmStats((await run.shell.run(argv, run.signal)).toString('utf8'))];
    } catch (error) {
      missing.ipvs = failed(error);
      return [];
    }
  });
  return (await Promise.all(read)).flat();
}

/** A shell that cannot stream its output returns it as a whole. */
async function runInto({shell, signal}: SampleRun, argv: readonly string[], take: TakeOutput): Promise<void> {
  const rest = await shell.run(argv, signal, take);
  if (rest.length > 0) take(rest);
}

/** The reason of a command that failed by itself. Any other error is one of the connection and is rethrown. */
function failed(error: unknown): string {
  if (error instanceof CommandFailed && (error.notFound || error.exitCode !== null)) return errorText(error);
  throw error;
}
