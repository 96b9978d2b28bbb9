import type {BundleDiff} from '../model/findings/bundle-diff.ts';
import {newestKnownMinor} from '../model/proxy-config.ts';
import type {Report} from '../model/report.ts';
import type {Snapshot} from '../model/snapshot.ts';
import {diffEndpoints} from './diff-endpoints.ts';
import {diffFindings, unreadSince} from './diff-findings.ts';
import {diffNodes} from './diff-nodes.ts';
import {diffRules} from './diff-rules.ts';
import {diffServices} from './diff-services.ts';

/** One of the two sides: the collected data, if available, and the findings. */
export interface DiffSide {
  /** Null for a report, which contains no objects or dumps. */
  readonly snapshot: Snapshot | null;
  readonly report: Pick<Report, 'nodes' | 'findings'>;
}

/** The changes from one bundle, or report, to another. A pure function of both. */
export function diffBundles(before: DiffSide, after: DiffSide): BundleDiff {
  const whole = before.snapshot !== null && after.snapshot !== null ? [before.snapshot, after.snapshot] : [];
  const [old, young] = whole;
  const objects =
    old === undefined || young === undefined ? nothing('a report contains no Services, endpoints or rules') : diffSnapshots(old, young);
  return {
    ...objects,
    nodes: diffNodes(before.report.nodes, after.report.nodes),
    findings: diffFindings(before.report, after.report),
    notCompared: [...objects.notCompared, ...unreadReasons(before, after)],
  };
}

/** The findings of a removed node are resolved with it. */
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

/** The endpoints do not depend on versions, except some old ones that read them differently. */
const newestProxy = {version: {text: `1.${newestKnownMinor}`, minor: newestKnownMinor, patch: 0}, gates: {}};
