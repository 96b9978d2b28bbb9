import {collectNode} from '../../collect/node/collect-node.ts';
import type {CollectedNode} from '../../collect/node/collected-node.ts';
import {errorText} from '../../model/text/error-text.ts';
import type {NodeInfo, Transport} from '../../collect/node/transport.ts';
import type {NodeSurroundings} from '../../diagnosis/diagnose-node.ts';
import {families, type Family} from '../../model/family.ts';
import type {NodeSample} from '../../traffic/node-sample.ts';
import type {NodeSurvey} from '../../traffic/node-survey.ts';
import {surveyNode, unreadSurvey} from '../../traffic/survey-node.ts';
import type {NodeRead} from '../../traffic/traffic-report.ts';
import type {Clock} from '../clock.ts';
import {asUnread} from '../nodes/node-intake.ts';
import {readSample} from './read-sample.ts';

interface CountingOptions {
  readonly transport: Transport;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Timeout to read everything that shows the expected shares, in milliseconds. */
  readonly surveyTimeoutMs: number;
  /** Timeout to read the counters once, in milliseconds. */
  readonly sampleTimeoutMs: number;
}

/** A node whose counters are read repeatedly. */
export class CountedNode {
  readonly #info: NodeInfo;
  readonly #options: CountingOptions;
  #survey: NodeSurvey;
  #programs: ReadonlyMap<Family, string> = new Map();
  #before: NodeSample | null = null;
  #after: NodeSample | null = null;
  #failure: string | undefined;

  constructor(info: NodeInfo, options: CountingOptions) {
    this.#info = info;
    this.#options = options;
    this.#survey = unreadSurvey(info.name, 'it was not read yet');
  }

  get isRead(): boolean {
    return this.#survey.status !== 'unread';
  }

  /** The difference between the last two reads. */
  get read(): NodeRead {
    return {survey: this.#survey, before: this.#before, after: this.#after, failure: this.#failure};
  }

  /** Reads the rules that determine the expected shares. Never rejects. If the node cannot be read now, the previous result stays. */
  async survey(surroundings: NodeSurroundings): Promise<void> {
    const {transport, signal, surveyTimeoutMs} = this.#options;
    const node = await collectNode(this.#info, transport, {
      signal,
      timeoutMs: surveyTimeoutMs,
      wants: file => !file.startsWith('conntrack'),
    });
    const unread = asUnread(node);
    if (unread !== null) {
      if (!this.isRead) this.#survey = unreadSurvey(node.name, unread.reason);
      return;
    }
    this.#survey = surveyNode(node, surroundings);
    this.#programs = new Map(families.map(family => [family, programOf(node, family)]));
  }

  /** Reads the counters. Never rejects, unless the run is interrupted. */
  async sample(): Promise<void> {
    if (this.#survey.status !== 'checked') return;
    const {signal, sampleTimeoutMs, clock, transport} = this.#options;
    const timeout = AbortSignal.timeout(sampleTimeoutMs);
    const both = AbortSignal.any([signal, timeout]);
    this.#before = this.#after;
    this.#after = null;
    this.#failure = undefined;
    try {
      const shell = await transport.open(this.#info, both);
      this.#after = await unlessAborted(readSample({shell, survey: this.#survey, programs: this.#programs, signal: both, clock}), both);
    } catch (error) {
      signal.throwIfAborted();
      this.#failure = timeout.aborted ? `no answer within ${sampleTimeoutMs / 1000} s` : errorText(error);
    }
  }
}

/** Does not wait for a promise that ignores the signal. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const {promise, reject} = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort, {once: true});
  work.catch(() => {});
  return Promise.race([work, promise]).finally(() => signal.removeEventListener('abort', onAbort));
}

/** The program that prints kube-proxy's rules: the default one, or that of the backend that contains them. */
function programOf({read}: CollectedNode, family: Family): string {
  const tool = family === 'IPv4' ? 'iptables' : 'ip6tables';
  const programs = [`${tool}-save`, `${tool}-nft-save`, `${tool}-legacy-save`];
  return programs.find(program => read(program)?.includes('KUBE-SEP-')) ?? `${tool}-save`;
}
