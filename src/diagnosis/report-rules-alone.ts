import {readNft} from '../analyze/nftables/nft-rules.ts';
import {servicesInRules} from '../analyze/services-in-rules/services-in-rules.ts';
import type {Report} from '../model/report.ts';
import type {PortTrace} from '../model/service-trace.ts';
import type {NodeDump, Snapshot} from '../model/snapshot.ts';
import {countTraces} from './count-traces.ts';
import type {DiagnoseOptions} from './diagnosis-options.ts';
import {Diagnosis} from './diagnosis.ts';
import {uniqueBy} from '../model/lists.ts';
import {namespacedName} from '../model/text.ts';

/** Whether a snapshot contains only rules, like a file with pasted text. */
export function isRulesAlone({api}: Snapshot): boolean {
  return api.services === null && api.endpointSlices === null && api.endpoints === null && api.nodes === null;
}

/** What rules without API objects show of the requested Services: their packet paths, and the faults of the rules themselves. */
export function reportRulesAlone(
  snapshot: Snapshot,
  options: DiagnoseOptions,
  select: (traces: readonly PortTrace[]) => readonly PortTrace[],
): Report {
  const diagnosis = new Diagnosis(snapshot.api, options);
  for (const node of snapshot.nodes) diagnosis.add(node);
  const report = diagnosis.report([]);
  const traces = snapshot.nodes.flatMap(node => countTraces(select(servicesInRules(node)), node));
  const hidden = new Set(snapshot.nodes.flatMap(node => (traces.length === 0 && isPrintedByNft(node) ? [node.name] : [])));
  const chains = new Set(traces.flatMap(chainsOf));
  const findings = report.findings.filter(
    ({name, actual = []}) =>
      (name === misprinted && actual.length > 0) || (ofRulesAlone.has(name) && actual.some(({chain}) => chains.has(chain))),
  );
  const count = (severity: string): number => findings.filter(finding => finding.severity === severity).length;
  const names = new Set(traces.map(({service}) => `${service.namespace}/${service.name}`));
  return {
    ...report,
    ...{basis: 'rules', traces, findings},
    services: uniqueBy(
      traces.map(({service}) => service),
      namespacedName,
    ),
    summary: {
      ...report.summary,
      verdict: count('error') > 0 ? 'findings' : 'incomplete',
      ...{errors: count('error'), warnings: count('warning'), infos: count('info')},
      ...{services: names.size, servicePorts: traces.length},
    },
    nodes: report.nodes.map(node => ({
      ...node,
      reason: hidden.has(node.name) ? printedByNft : 'from rules alone: nothing to compare with',
    })),
  };
}

const printedByNft = "kube-proxy's rules of iptables as nft prints them, without the names of Services: paste what iptables-save prints";

function isPrintedByNft(node: NodeDump): boolean {
  return [...(readNft(node)?.tables.values() ?? [])].some(({chains}) => chains.has('KUBE-SERVICES'));
}

/** Findings that need no API object, whatever else the text contains. */
const ofRulesAlone: ReadonlySet<string> = new Set(['unexpected-rule', 'broken-jump', 'uneven-balance', 'orphan-chain']);

/** With rules, if these were printed wrongly; without, if the dump is truncated. */
const misprinted = 'dump-unreliable';

function chainsOf({entries}: PortTrace): readonly string[] {
  return entries.flatMap(({steps, endpoints}) => [
    ...steps.flatMap(({chain, to}) => [chain, to]),
    ...endpoints.flatMap(({pick, rewrite}) => [pick?.chain ?? '', rewrite?.chain ?? '']),
  ]);
}
