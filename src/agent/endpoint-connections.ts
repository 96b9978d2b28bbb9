import type {NodeInfo, NodeShell, Transport} from '../collect/node/transport.ts';
import {ClusterView} from '../expect/cluster/cluster-view.ts';
import {families, type Family} from '../model/address.ts';
import type {ServiceName} from '../model/finding.ts';
import {newestProxy} from '../model/proxy-config.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {errorText} from '../model/text.ts';
import type {Clock} from '../run/clock.ts';
import {readSample} from '../run/top/read-sample.ts';
import {measurePort, type NodeSample} from '../traffic/measure-port.ts';
import type {NodeSurvey} from '../traffic/node-survey.ts';

/** New connections that this node gave to one endpoint of one Service port since kube-proxy last wrote its rules. */
export interface EndpointCount {
  readonly service: ServiceName;
  /** Its name; empty for a port without one. */
  readonly port: string;
  readonly protocol: string;
  /** `ip:port`. */
  readonly endpoint: string;
  readonly connections: number;
}

export interface CountedEndpoints {
  readonly counts: readonly EndpointCount[];
  /** Why nothing was counted; null when something was. */
  readonly problem: string | null;
}

interface CountRun {
  readonly transport: Transport;
  readonly node: NodeInfo;
  readonly api: ApiObjects;
  /** kube-proxy's on the node. */
  readonly mode: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly clock: Clock;
}

/** Reads the counters of the rules, or of IPVS. Rejects with the signal's reason when that is aborted; whatever else fails is the problem. */
export async function countEndpoints(run: CountRun): Promise<CountedEndpoints> {
  const {mode, signal, timeoutMs} = run;
  if (mode !== 'iptables' && mode !== 'ipvs') return {counts: [], problem: `nothing counts new connections in ${mode} mode`};
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    return await readCounts(run, AbortSignal.any([signal, timeout]));
  } catch (error) {
    signal.throwIfAborted();
    return {counts: [], problem: timeout.aborted ? `no answer within ${timeoutMs / 1000} s` : errorText(error)};
  }
}

async function readCounts(run: CountRun, signal: AbortSignal): Promise<CountedEndpoints> {
  const shell = await run.transport.open(run.node, signal);
  try {
    return await readWith(shell, run, signal);
  } finally {
    await shell[Symbol.asyncDispose]();
  }
}

async function readWith(shell: NodeShell, {node, api, mode, clock}: CountRun, signal: AbortSignal): Promise<CountedEndpoints> {
  const survey = surveyOf(node, api, mode);
  let problem: string | null = null;
  for (const backend of mode === 'iptables' ? backends : ['']) {
    const programs = new Map<Family, string>([
      ['IPv4', `iptables${backend}-save`],
      ['IPv6', `ip6tables${backend}-save`],
    ]);
    const sample = await readSample({shell, survey, programs, signal, clock, withoutConntrack: true});
    if (holdsCounters(sample)) return {counts: countsOf(survey, sample), problem: null};
    problem ??= sample.missing.counters ?? sample.missing.ipvs ?? noCounters;
  }
  return {counts: [], problem};
}

const noCounters = 'the node has no rules of these Services with counters';

/** Plain `iptables-save` may print the backend that kube-proxy does not use. */
const backends = ['', '-nft', '-legacy'];

function holdsCounters({nat, ipvs}: NodeSample): boolean {
  return ipvs.length > 0 || [...nat.values()].some(({ports, counted, complete}) => counted && complete && ports.size > 0);
}

/** The Service ports of the cluster, without the shares that the rules of the node give to endpoints. */
function surveyOf({name, addresses}: NodeInfo, api: ApiObjects, mode: string): NodeSurvey {
  const view = new ClusterView(api);
  const ports = families
    // Names and addresses of Service ports are the same for every version of kube-proxy.
    .flatMap(family => view.entries(family, newestProxy))
    .map(entry => {
      const {servicePortName, protocol, family} = entry.port;
      return {...entry, key: `${servicePortName} ${protocol} ${family}`, shares: null, due: null, isRandom: false};
    });
  return {name, status: 'checked', mode, addresses: addresses.map(({address}) => address), ports};
}

function countsOf(survey: NodeSurvey, sample: NodeSample): readonly EndpointCount[] {
  return survey.ports.flatMap(surveyed => {
    const {namespace, service: name, portName, protocol} = surveyed.port;
    const {cells} = measurePort(survey, surveyed, {before: null, after: sample});
    const unused = new Set(
      surveyed.set.endpoints.filter(one => !one.ready && !(one.terminating && one.serving)).map(({hostPort}) => hostPort),
    );
    return [...cells].flatMap(([endpoint, {totalConnections}]) =>
      totalConnections === null || (totalConnections === 0 && unused.has(endpoint))
        ? []
        : [{service: {namespace, name}, port: portName, protocol, endpoint, connections: totalConnections}],
    );
  });
}
