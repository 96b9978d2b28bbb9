import {podsByNode, type ProxyPodsReading} from '../../collect/cluster/read-agent-pods.ts';
import {earlyCommands} from '../../collect/node/collect-node.ts';
import type {NodeInfo, NodeShell} from '../../collect/node/transport.ts';
import {execTransport} from '../../collect/transports/exec.ts';
import {agentsOn} from '../../collect/transports/host-agents.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {lifetimeOf} from '../options/transport.ts';
import {nodeTimeout} from './node-source.ts';

interface AheadInput {
  readonly proxyPods: Promise<ProxyPodsReading>;
  /** Null where all rules are read at once. */
  readonly chains: Promise<number | null>;
}

/**
 * Opens the node that `--node` names, and runs its first commands, as soon as its pod of kube-proxy is known: to list the Nodes of a large
 * cluster takes longer than to read one of them. Only by exec, which creates nothing and needs no more than the pod. Undefined for all
 * other runs, and with --wait, because a node is then read after everything else.
 */
export function openAhead(run: ClusterRun, input: AheadInput): NodeAhead | undefined {
  const {flags, wait} = run;
  const [name, ...others] = flags.node ?? [];
  const isPlain = name !== undefined && others.length === 0 && flags['node-selector'] === undefined && wait === undefined;
  if (!isPlain || !['auto', 'exec'].includes(flags.transport)) return undefined;
  return new NodeAhead(name, run, input);
}

/** A node that may be open before it is requested. */
export class NodeAhead {
  readonly #name: string;
  readonly #run: ClusterRun;
  readonly #lifetimeMs: number;
  readonly #end = new AbortController();
  #opened: {readonly at: number; readonly shell: Promise<NodeShell>} | null = null;

  constructor(name: string, run: ClusterRun, {proxyPods, chains}: AheadInput) {
    this.#name = name;
    this.#run = run;
    this.#lifetimeMs = lifetimeOf(nodeTimeout(run.flags['node-timeout']));
    // A failure to read them ends the run, or is a problem of it.
    Promise.all([proxyPods, chains]).then(
      ([{pods}, chainsOfPort]) =>
        this.#open({name, addresses: [], labels: {}, pods: podsByNode(pods ?? []).get(name) ?? []}, chainsOfPort !== null),
      () => {},
    );
  }

  /**
   * The shell, and when it was opened, in milliseconds since 1970; once, and null for another node or if none was opened. It is given up when
   * the signal is aborted before it is open.
   */
  take(name: string, signal: AbortSignal): {readonly at: number; readonly shell: Promise<NodeShell>} | null {
    if (name !== this.#name) return null;
    const opened = this.#opened;
    this.#opened = null;
    if (opened === null) return null;
    const giveUp = () => this.#end.abort(signal.reason);
    if (signal.aborted) giveUp();
    signal.addEventListener('abort', giveUp, {once: true});
    return opened;
  }

  #open(node: NodeInfo, byChain: boolean): void {
    const {flags, names, cluster, signal, clock} = this.#run;
    if (agentsOn(node).length === 0) return;
    const early = earlyCommands({counters: flags.counters ? 'rules' : undefined, byChain, byName: names.length > 0});
    const shell = execTransport(cluster.api, {lifetimeMs: this.#lifetimeMs}).open(node, AbortSignal.any([signal, this.#end.signal]), early);
    // Nobody may take it.
    shell.catch(() => {});
    this.#opened = {at: clock.now(), shell};
  }
}
