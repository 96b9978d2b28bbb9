import {ciliumAgentTable} from '../../model/proxy-config.ts';
import type {CollectedNode, NodeInfo, Transport} from '../../collect/node/transport.ts';
import {defaultDebugNamespace, removeLeftovers} from '../../collect/transports/debug.ts';
import type {OpenDiagnosis} from '../../diagnosis/diagnose-node.ts';
import {groupBy} from '../../model/lists.ts';
import type {Problem, UnreadNode} from '../../model/snapshot.ts';
import type {NodeReading} from '../../model/state-history.ts';
import {errorText} from '../../model/text.ts';
import type {OpenCluster} from '../open-cluster.ts';
import type {ParsedTransportFlags, NodeSource} from './node-source.ts';
import process from 'node:process';
import spinner from 'yocto-spinner';
import {type CollectProgress, collectNodes} from '../../collect/node/collect-node.ts';

/** Reads nodes as the source says, and shows how many of them are read. `log` is left out where no log is read. */
export function collectFrom(
  {transport, concurrency, timeoutMs, readLog}: NodeSource,
  nodes: readonly NodeInfo[],
  {
    progress,
    log: of,
    ...options
  }: Pick<Parameters<typeof collectNodes>[2], 'signal' | 'wants' | 'counters' | 'requested' | 'cilium'> & {
    readonly progress: ProgressLine;
    readonly log?: 'all' | 'failing';
  },
): AsyncIterable<CollectedNode> {
  const log = of === undefined || readLog === undefined ? undefined : {read: readLog, of};
  const onProgress = (counts: CollectProgress) => progress.say(progressText(counts));
  return collectNodes(nodes, transport, {...options, log, concurrency, timeoutMs, onProgress});
}

/** Adds a node to the diagnosis, whether it was read or not. Returns what to report of a node that was read in part. */
export function takeNode(node: CollectedNode, diagnosis: OpenDiagnosis, reading?: NodeReading): readonly Problem[] {
  const unread = asUnread(node);
  if (unread === null) diagnosis.add(node, reading);
  else diagnosis.addUnread(unread, node);
  return nodeProblems(node);
}

/** Why a node cannot be evaluated; null if it can. */
export function asUnread({name, status, files, problems}: CollectedNode): UnreadNode | null {
  if (status !== 'unread' || files.some(file => file === ciliumAgentTable || /^nft(?:-ruleset)?\.json$/.test(file))) return null;
  // Commands run in parallel: which of them fails first is random.
  const reasons = joinAlike(problems.map(({message}) => message).sort());
  const isPermanent = problems.length > 0 && problems.every(problem => problem.isPermanent);
  return {name, reason: reasons.join('; '), remedy: whatToDo, ...(isPermanent ? {isPermanent: true as const} : {})};
}

/** Commands that fail in the same way are named together. */
function joinAlike(reasons: readonly string[]): readonly string[] {
  const byFailure = groupBy(reasons, reason => reason.replace(/^[\w-]+(?= ended )/, ''));
  return byFailure.map(alike => {
    const [first = '', ...others] = [...new Set(alike)];
    const programs = others.map(reason => reason.slice(0, reason.indexOf(' ended ')));
    return programs.length === 0 ? first : `${programs.join(', ')} and ${first}`;
  });
}

/** What could not be read of a node that was read in part. */
export function nodeProblems(node: CollectedNode): readonly Problem[] {
  return asUnread(node) === null ? node.problems.map(problem => ({...problem, remedy: whatToDo})) : [];
}

const whatToDo =
  'Read the node in another way (--transport), give it more time (--node-timeout), or leave it out with --node or --node-selector.';

/** Removes debug pods that a killed run left. A failure is reported and does not prevent the check. */
export async function clearLeftovers(
  transport: Transport,
  {cluster, flags}: {readonly cluster: OpenCluster; readonly flags: ParsedTransportFlags},
): Promise<readonly Problem[]> {
  if (transport.name !== 'debug') return [];
  const namespace = flags['debug-namespace'] ?? defaultDebugNamespace;
  try {
    await removeLeftovers(cluster.api, namespace);
    return [];
  } catch (error) {
    const reason = errorText(error);
    const message = `debug pods of earlier runs could not be listed: ${reason}`;
    return [
      {message, remedy: `Look for them with: kubectl get pods -n ${namespace} -l app.kubernetes.io/managed-by=svc-trace`, isMinor: true},
    ];
  }
}

/** Shows the progress of a run on stderr. */
export interface ProgressLine {
  say(text: string): void;
  /** Writes a permanent line, also in logs. */
  note(text: string): void;
  /** Removes the progress line. */
  close(): void;
}

/** A progress line, on a terminal only. Logs and pipes get permanent lines only. */
export function progressLine(isWanted: boolean, stream: NodeJS.WriteStream = process.stderr): ProgressLine {
  if (!isWanted) return {say: () => {}, note: () => {}, close: () => {}};
  const note = (text: string): void => void stream.write(`${text}\n`);
  if (stream.isTTY !== true) return {say: () => {}, note, close: () => {}};
  // The spinner's own signal handler would end the process before cleanup.
  const line = spinner({stream, handleSignals: false});
  // The spinner hides the cursor; it is shown again however the process ends.
  const restore = () => void line.stop();
  process.on('exit', restore);
  return {
    say: text => {
      line.text = text;
      line.start();
    },
    note: text => {
      line.clear().stop();
      note(text);
    },
    close: () => {
      line.clear().stop();
      process.off('exit', restore);
    },
  };
}

/** @internal */
export function progressText({total, done, failed, inProgress}: CollectProgress): string {
  return `nodes: ${done - failed} of ${total} read${failed > 0 ? `, ${failed} failed or incomplete` : ''}, ${inProgress} in progress`;
}
