import type {BundleDiff} from '../model/findings/bundle-diff.ts';
import {newestKnownMinor} from '../model/proxy-config.ts';
import type {Report} from '../model/report.ts';
import type {Snapshot} from '../model/snapshot.ts';
import {diffEndpoints} from './diff-endpoints.ts';
import {diffFindings, unreadSince} from './diff-findings.ts';
import {diffNodes} from './diff-nodes.ts';
import {diffRules} from './diff-rules.ts';
import {diffServices} from './diff-services.ts';

/** One of the two sides: what was collected, where it is at hand, and what was found. */
export interface DiffSide {
  /** Null for a report, which holds no objects and no dumps. */
  readonly snapshot: Snapshot | null;
  readonly report: Pick<Report, 'nodes' | 'findings'>;
}

/** What changed from one bundle, or report, to another. A pure function of both. */
export function diffBundles(before: DiffSide, after: DiffSide): BundleDiff {
  const whole = before.snapshot !== null && after.snapshot !== null ? [before.snapshot, after.snapshot] : [];
  const [old, young] = whole;
  const objects =
    old === undefined || young === undefined ? nothing('a report holds no Services, endpoints and rules') : diffSnapshots(old, young);
  return {
    ...objects,
    nodes: diffNodes(before.report.nodes, after.report.nodes),
    findings: diffFindings(before.report, after.report),
    notCompared: [...objects.notCompared, ...unreadReasons(before, after)],
  };
}

/** A node that is not there any more took what was found on it with it. */
function unreadReasons(before: DiffSide, after: DiffSide): readonly string[] {
  return unreadSince(before.report, after.report).map(
    name => `what was found on ${name}: the later side did not read it, so whether it is still there is not known`,
  );
}

type Objects = Pick<BundleDiff, 'services' | 'endpoints' | 'rules' | 'notCompared'>;

function nothing(reason: string): Objects {
  return {services: [], endpoints: [], rules: [], notCompared: [reason]};
}

function diffSnapshots(before: Snapshot, after: Snapshot): Objects {
  const [old, young] = [before.api, after.api];
  const hasServices = old.services !== null && young.services !== null;
  const hasEndpoints = hasServices && [old, young].every(({endpointSlices, endpoints}) => endpointSlices !== null || endpoints !== null);
  const dumps = new Map(before.nodes.map(node => [node.name, node]));
  return {
    services: hasServices ? diffServices(old.services, young.services) : [],
    endpoints: hasEndpoints ? diffEndpoints(old, young, newestProxy) : [],
    rules: after.nodes.flatMap(node => {
      const same = dumps.get(node.name);
      return same === undefined ? [] : diffRules(same, node);
    }),
    notCompared: [...(hasServices ? [] : ['Services']), ...(hasEndpoints ? [] : ['endpoints'])].map(
      what => `${what} were not read on one of the sides`,
    ),
  };
}

/** Which endpoints there are is not a matter of versions, but for some that were read otherwise long ago. */
const newestProxy = {version: {text: `1.${newestKnownMinor}`, minor: newestKnownMinor, patch: 0}, gates: {}};
