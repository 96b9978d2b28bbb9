import {othersAnswer} from '../../model/node/kube-proxy-failures.ts';
import {errorText, plural} from '../../model/text.ts';
import {type ApiAnswer, ApiError, type ExecTarget, type KubeApi} from '../kube/kube-api.ts';
import type {KubeProxyPage} from '../node/kube-proxy-pages.ts';
import {backendCommand} from '../node/node-commands.ts';
import {CommandFailed, type NodeInfo, type NodeShell, type Transport, Unreachable} from '../node/transport.ts';
import {agentsOn, ciliumAgentOn, proxyLabels, unusableAgents} from './host-agents.ts';
import {openShellSessions} from './shell-session.ts';
import {isProgramMissing} from './root-command.ts';

export interface ExecOptions {
  /** After this time what still runs in a shell of a pod is ended there, in milliseconds. */
  readonly lifetimeMs?: number;
}

/** Execs into a pod that already runs on the node in its network namespace and has the tools. Creates nothing. */
export function execTransport(api: KubeApi, {lifetimeMs = 600_000}: ExecOptions = {}): Transport {
  const pagesOf = nodeProxyPages(api);
  const images = new ShellsOfImages();
  // After an exec that the API server refused, one request shows whether it refuses the next one too.
  let isRefused = false;
  return {
    name: 'exec',
    async open(node, signal, early = []) {
      const agents = agentsOn(node);
      if (agents.length === 0) throw new Unreachable(noAgent(node), {isPermanent: node.isUnlisted === true});
      const down: ExecTarget[] = [];
      // A pod with iptables shows more. An image for nftables mode may hold nft alone.
      const attempts = [backendCommand, nftVersion].flatMap(question => agents.map(target => ({target, question})));
      for (const {target, question} of attempts) {
        if (down.includes(target)) continue;
        const plain = podShell(api, target);
        const open = () =>
          podShellSessions(api, target, {stop: signal, lifetimeMs}, error => {
            isRefused ||= isForbidden(error);
          });
        const image = imageOf(node, target);
        const shell = isRefused ? plain : await images.shellOf(image, open, plain);
        // Nearly always the first pod has the tools. Where each command is a session, the dumps are the question for the tools.
        const isFirst = !isRefused && question === backendCommand;
        const ahead = !isFirst ? [] : shell.opensSessions ? early.filter(([program = '']) => program.endsWith('-save')) : early;
        const begun = ahead.map(argv => begin(shell, argv, signal));
        const asked = shell.opensSessions && begun.length > 0 ? begun : [begin(shell, question, signal)];
        const probe = await probeTools(asked, target).catch((error: Error) => {
          isRefused ||= isForbidden(error.cause);
          throw error;
        });
        if (probe === 'there') {
          isRefused = false;
          return {...remembering(shell, [...new Set([...asked, ...begun])]), readPage: pagesOf(node.name)};
        }
        if (probe === 'down') down.push(target);
        await shell[Symbol.asyncDispose]();
      }
      throw new Unreachable(noTools(node, {agents, down}));
    },
  };
}

function noTools(node: NodeInfo, {agents, down}: {readonly agents: readonly ExecTarget[]; readonly down: readonly ExecTarget[]}): string {
  const others = agents.filter(target => !down.includes(target));
  const lacking = others.length === 0 ? 'no other pod there has the tools' : `no iptables-save in ${namesOf(others)} on ${node.name}`;
  return `${down.length === 0 ? '' : `${namesOf(down)} does not run; `}${lacking}: use --transport debug or --transport ssh`;
}

function namesOf(targets: readonly ExecTarget[]): string {
  return targets.map(({namespace, pod}) => `${namespace}/${pod}`).join(', ');
}

const nftVersion = ['nft', '--version'];

/** A command that was run, and its result. */
interface Ran {
  readonly argv: readonly string[];
  readonly outcome: Promise<Buffer>;
  /** When it has printed something, or ended. */
  readonly begun: Promise<unknown>;
  /** The result is used once: the command is run again if it is requested again. */
  readonly isOnce: boolean;
}

function begin(shell: NodeShell, argv: readonly string[], signal: AbortSignal): Ran {
  const parts: Buffer[] = [];
  const {promise: printed, resolve} = Promise.withResolvers<void>();
  const take = (part: Buffer): void => {
    parts.push(part);
    // The API server opens each stream with an empty part.
    if (part.length > 0) resolve();
  };
  const outcome = handled(shell.run(argv, signal, take).then(rest => (parts.length === 0 ? rest : Buffer.concat([...parts, rest]))));
  return {argv, outcome, begun: handled(Promise.race([printed, outcome])), isOnce: argv !== backendCommand};
}

/** `lacking` if the pod does not exist or has none of these programs, `down` if its container does not run: the next one may be tried then. */
async function probeTools(asked: readonly Ran[], target: ExecTarget): Promise<'there' | 'lacking' | 'down'> {
  try {
    await Promise.any(asked.map(({begun}) => begun));
    return 'there';
  } catch (failure) {
    const error: unknown = failure instanceof AggregateError ? failure.errors[0] : failure;
    // An old iptables-save knows no --version, and exists.
    if (error instanceof CommandFailed && (error.exitCode !== null || isMissing(error))) return isMissing(error) ? 'lacking' : 'there';
    // Messages of the kubelet for a container that has ended or not started.
    if (error instanceof ApiError && /container not found \(|container \S+ (?:is )?not (?:running|created)/i.test(error.message))
      return 'down';
    if (error instanceof ApiError && error.status === 404) return 'lacking';
    throw new Unreachable(`${whatFailed(target, errorText(error))}${execRemedy(error)}`, {cause: error});
  }
}

/** The result may never be awaited. */
function handled<T>(outcome: Promise<T>): Promise<T> {
  outcome.catch(() => {});
  return outcome;
}

/** Each command is a connection of its own: known results are not requested again. */
function remembering(shell: NodeShell, ran: readonly Ran[]): NodeShell {
  const known = new Map(ran.map(one => [one.argv.join('\0'), one]));
  return {
    description: shell.description,
    ...(shell.opensSessions ? {opensSessions: true} : {}),
    run: (argv, signal, take) => {
      const key = argv.join('\0');
      const one = known.get(key);
      if (one?.isOnce) known.delete(key);
      return one?.outcome ?? shell.run(argv, signal, take);
    },
    [Symbol.asyncDispose]: () => shell[Symbol.asyncDispose](),
  };
}

/** If the API server refuses, its message names the request. */
function whatFailed({namespace, pod}: ExecTarget, reason: string): string {
  const what = `exec into ${namespace}/${pod}`;
  return reason.includes(what) ? reason : `cannot ${what}: ${reason}`;
}

function execRemedy(error: unknown): string {
  if (!isForbidden(error)) return '';
  return ` (${execRights}; --transport ssh needs none)`;
}

const execRights = 'exec needs the verbs get and create on pods/exec in that namespace';

function isForbidden(error: unknown): boolean {
  return error instanceof ApiError && error.status === 403;
}

/** Which images have a shell and which programs they lack, as their containers showed. */
class ShellsOfImages {
  readonly #lacking = new Set<string>();
  readonly #absent = new Map<string, Map<string, CommandFailed>>();
  readonly #versions = new Map<string, Promise<Buffer>>();
  readonly #first = new Map<string, Promise<unknown>>();

  /** Sessions of the container's shell, or `plain`, which runs each command in a session of its own. */
  async shellOf(image: string, open: () => Promise<NodeShell | null>, plain: NodeShell): Promise<NodeShell> {
    const first = this.#first.get(image);
    if (first !== undefined) await first;
    if (this.#lacking.has(image)) return this.#askingOnce(image, plain);
    const opening = open().then(shell => {
      if (shell === null) this.#lacking.add(image);
      return shell;
    });
    if (first === undefined) this.#first.set(image, opening);
    return (await opening) ?? this.#askingOnce(image, plain);
  }

  /** What one container of an image lacks, and its version, are those of the others: it would be a session for nothing on each node. */
  #askingOnce(image: string, plain: NodeShell): NodeShell {
    const absent = this.#absent.get(image) ?? new Map<string, CommandFailed>();
    this.#absent.set(image, absent);
    const run: NodeShell['run'] = async (argv, signal, take) => {
      const known = absent.get(argv[0] ?? '');
      if (known !== undefined) throw new CommandFailed(argv, {exitCode: known.exitCode, stderr: known.stderr, notFound: true});
      try {
        return await plain.run(argv, signal, take);
      } catch (error) {
        if (error instanceof CommandFailed && error.notFound) absent.set(argv[0] ?? '', error);
        throw error;
      }
    };
    const versionOf: NodeShell['run'] = (argv, signal) => {
      const asked = this.#versions.get(image) ?? run(argv, signal);
      this.#versions.set(image, asked);
      // Another node may answer.
      return asked.catch(error => {
        this.#versions.delete(image);
        throw error;
      });
    };
    const isOfVersion = (argv: readonly string[]): boolean => argv.join(' ') === 'kube-proxy --version';
    return {
      ...plain,
      opensSessions: true,
      run: (argv, signal, take) => (isOfVersion(argv) ? versionOf(argv, signal) : run(argv, signal, take)),
    };
  }
}

function imageOf({pods}: NodeInfo, {namespace, pod, container}: ExecTarget): string {
  const found = pods.find(({metadata}) => metadata.name === pod && metadata.namespace === namespace);
  // Where the API does not say, the pod stands for its image.
  return found?.spec?.containers?.find(({name}) => name === container)?.image || `${namespace}/${pod}`;
}

/** Runs commands by the shell of a container; null if it has none. */
export function podShellSessions(
  api: KubeApi,
  target: ExecTarget,
  {stop, lifetimeMs}: {readonly stop: AbortSignal; readonly lifetimeMs: number},
  onFailure: (error: unknown) => void = () => {},
): Promise<NodeShell | null> {
  const start: Parameters<typeof openShellSessions>[1] = async ({signal, take, begin}) => {
    try {
      await api.exec(target, ['sh'], AbortSignal.any([signal, stop]), take, begin);
    } catch (error) {
      onFailure(error);
      throw error;
    }
  };
  return openShellSessions(podShell(api, target), start, lifetimeMs);
}

/** Runs commands in a container of a pod. */
export function podShell(api: KubeApi, target: ExecTarget): NodeShell {
  return {
    description: `exec into ${target.namespace}/${target.pod}`,
    async run(argv, signal, take) {
      try {
        return await api.exec(target, argv, signal, take);
      } catch (error) {
        if (!(error instanceof CommandFailed) || error.notFound || !isMissing(error)) throw error;
        throw new CommandFailed(argv, {exitCode: error.exitCode, stderr: error.stderr, notFound: true, cause: error});
      }
    },
    async [Symbol.asyncDispose]() {},
  };
}

/** The Cilium of a node, by exec into its agent's pod: also where the node itself is reached in another way. */
export function ciliumShell(api: KubeApi, node: NodeInfo): NodeShell | null {
  const agent = ciliumAgentOn(node);
  if (agent === null) return null;
  const {target, whyUnusable} = agent;
  const shell = podShell(api, target);
  const run: NodeShell['run'] = async (argv, signal, take) => {
    if (whyUnusable !== null) throw new Unreachable(`${target.namespace}/${target.pod} ${whyUnusable}`);
    try {
      return await shell.run(argv, signal, take);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      throw new Unreachable(`${whatFailed(target, error.message)}${isForbidden(error) ? ` (${execRights})` : ''}`, {cause: error});
    }
  };
  return {...shell, run};
}

function isMissing(error: CommandFailed): boolean {
  return error.notFound || isProgramMissing(error);
}

/** What was looked for, and what was found of it. */
function noAgent(node: NodeInfo): string {
  return `no pod to exec into on ${node.name}: ${whatWasFound(node)}; use --transport debug, which creates a pod, or --transport ssh`;
}

function whatWasFound({name, pods, unlisted}: NodeInfo): string {
  const unusable = unusableAgents(name, pods);
  if (unusable.length > 0) return unusable.join(', ');
  if (unlisted !== undefined && pods.length === 0) return `its pods are not known: ${unlisted.replace(/\.$/, '')}`;
  const found = pods.length === 0 ? '' : `; its ${plural(pods.length, 'pod')} there ${pods.length === 1 ? 'is' : 'are'} something else`;
  const part = unlisted === undefined ? '' : ` (not all pods are known: ${unlisted.replace(/\.$/, '')})`;
  return `neither kube-proxy (label ${proxyLabels}) nor a known CNI agent runs on it in kube-system or the namespaces of CNI agents${found}${part}`;
}

/** Reads a page of a node's kube-proxy. Rejects with an Error with the reason if there is none. */
type ReadPage = (page: KubeProxyPage, signal: AbortSignal) => Promise<Buffer>;

/**
 * kube-proxy's pages through the API server's proxy to the node: an image of kube-proxy has no HTTP client. The API server connects to the
 * node's address, where kube-proxy serves its health, and its metrics only if it is configured to. The function is for one read of a node.
 * @internal
 */
export function nodeProxyPages(api: KubeApi): (node: string) => ReadPage {
  const silent = new Map<number, number>();
  /** Ports at which a node has answered. */
  const answered = new Set<number>();
  const read = async (node: string, {port, path}: KubeProxyPage, signal: AbortSignal): Promise<Buffer> => {
    // A firewall between the API server and the nodes affects all of them: each would take the full timeout.
    if ((silent.get(port) ?? 0) >= maxSilent)
      throw new UnreachablePort(`not asked: the API server got no answer at port ${port} of other nodes`);
    const timer = AbortSignal.timeout(timeoutMs);
    const proxy = `/api/v1/nodes/${encodeURIComponent(node)}:${port}/proxy${path}`;
    let answer: ApiAnswer;
    try {
      answer = await api.proxied(proxy, {signal: AbortSignal.any([signal, timer]), maxBytes});
    } catch (error) {
      const isSilent = timer.aborted || isTimeout(error);
      if (isSilent && !signal.aborted) silent.set(port, (silent.get(port) ?? 0) + 1);
      const why = isSilent ? whySilent(port, answered.has(port)) : whyNot(port, error);
      throw isSilent || isRefused(error) || isForbidden(error) ? new UnreachablePort(why, {cause: error}) : new Error(why, {cause: error});
    }
    silent.set(port, 0);
    answered.add(port);
    if (answer.status === 404) throw new Error(`kube-proxy has no page ${path} at port ${port}`);
    return answer.body;
  };
  return node => {
    /** By port: why its first page could not be read; null if it was. */
    const tried = new Map<number, Promise<unknown>>();
    return async (page, signal) => {
      const first = tried.get(page.port);
      const failure = first === undefined ? null : await first;
      if (failure instanceof UnreachablePort) throw failure;
      const body = read(node, page, signal);
      if (first === undefined)
        tried.set(
          page.port,
          body.then(
            () => null,
            (error: unknown) => error,
          ),
        );
      return body;
    };
  };
}

/** No page of this port can be read, whatever its path. */
class UnreachablePort extends Error {
  override readonly name = 'UnreachablePort';
}

/** Shorter than the timeout of a connection whose packets are dropped. */
const timeoutMs = 5000;
const maxSilent = 2;
/** The metrics of a kube-proxy are some hundred kilobytes. */
const maxBytes = 16 * 1024 * 1024;

function whySilent(port: number, answeredElsewhere: boolean): string {
  return `no answer at port ${port} of the node within ${timeoutMs / 1000} s${answeredElsewhere ? `, ${othersAnswer}` : ''} (asked through the API server)`;
}

/** Contains no node name, so that the same reason on many nodes is the same text. */
function whyNot(port: number, error: unknown): string {
  if (!(error instanceof ApiError)) return errorText(error);
  if (isForbidden(error)) return 'you may not get nodes/proxy, an optional right ("kubectl svc-trace access" says what it opens)';
  if (!isRefused(error)) return `${error.message} (asked through the API server)`;
  const why =
    port === metricsPort
      ? ': by default kube-proxy listens there on the loopback address only; --transport debug, ssh and local read it on the node'
      : '';
  return `connection refused at port ${port} of the node (asked through the API server)${why}`;
}

const metricsPort = 10249;

function isRefused(error: unknown): boolean {
  return error instanceof ApiError && /connection refused/i.test(error.message);
}

/** The API server timed out, or a device between it and the node did. */
function isTimeout(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 504 || /i\/o timeout|timed out|deadline exceeded/i.test(error.message));
}
