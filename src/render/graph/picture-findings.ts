import {affectsAllServices} from '../../model/count-services.ts';
import type {Entry} from '../../model/entry.ts';
import type {Finding} from '../../model/finding.ts';
import {pushTo} from '../../model/lists.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

/** The errors and warnings that concern the path to a Service port on a node. */
export interface NodeFindings {
  of(trace: PortTrace): readonly Finding[];
  /** The same text for nodes with the same findings. */
  likeness(trace: PortTrace): string;
}

export function nodeFindings(findings: readonly Finding[]): NodeFindings {
  const byPlace = new Map<string, Finding[]>();
  for (const finding of findings) {
    const {severity, service, node = null} = finding;
    if (severity === 'info' || (service === undefined && !affectsAllServices(finding))) continue;
    pushTo(byPlace, placeOf(node, service), finding);
  }
  const of = (trace: PortTrace): readonly Finding[] =>
    [placeOf(trace.node, undefined), placeOf(trace.node, trace.service), placeOf(null, trace.service)]
      .flatMap(place => byPlace.get(place) ?? [])
      .filter(finding => isOfTrace(finding, trace));
  return {
    of,
    likeness: trace =>
      JSON.stringify(of(trace).map(({code, severity, message, entry}) => [code, severity, message.replaceAll(trace.node, '\0'), entry])),
  };
}

function placeOf(node: string | null, service: Finding['service']): string {
  return JSON.stringify([node, service === undefined ? null : namespacedName(service)]);
}

function isOfTrace({family, port}: Finding, trace: PortTrace): boolean {
  const isOfPort = port === undefined || (port.protocol === trace.port.protocol && port.port === trace.port.port);
  return isOfPort && (family === undefined || family === trace.family);
}

/** The third-party rules that packets to an entry meet. */
export function thirdPartyRules(findings: readonly Finding[], entry: Entry): readonly {readonly code: string; readonly rule: RuleText}[] {
  return findings
    .filter(({code, entry: of, service}) => service !== undefined && thirdPartyCodes.has(code) && (of === undefined || isSame(of, entry)))
    .flatMap(({code, actual = []}) => actual.map(rule => ({code, rule})));
}

function isSame(one: Entry, other: Entry): boolean {
  return one.kind === other.kind && one.address === other.address && one.port === other.port;
}

/** Forwarding is blocked, or a third-party rule intercepts or drops packets, or cannot be interpreted. */
const thirdPartyCodes: ReadonlySet<string> = new Set(['ST303', 'ST401', 'ST402', 'ST403']);

/** Findings that no box shows. If boxes show faults, findings with the codes of these faults are left out. */
export function alertsOf(findings: readonly Finding[], isDrawn: boolean): readonly string[] {
  return findings
    .filter(({code, service}) => service === undefined || !(isDrawn && drawnCodes.has(code)))
    .map(({code, name, severity, service, message}) =>
      service === undefined ? `${code} ${name}, all Services of the node: ${message}` : `${code} ${severity} ${name}: ${message}`,
    );
}

const drawnCodes: ReadonlySet<string> = new Set([...thirdPartyCodes, 'ST201', 'ST202', 'ST203', 'ST204', 'ST206', 'ST208', 'ST212']);
