import type {Finding} from '../model/finding.ts';

/** The same finding on many nodes, shown once. The first is shown; the others differ in node and line numbers only. */
export interface FindingGroup {
  readonly finding: Finding;
  readonly nodes: readonly string[];
  /** The command of each node that has one. */
  readonly commands: readonly string[];
}

export function groupFindings(findings: readonly Finding[]): readonly FindingGroup[] {
  const groups = new Map<string, {finding: Finding; nodes: string[]; commands: string[]}>();
  for (const finding of findings) {
    const {code, severity, service, port, entry, endpoint, family, node} = finding;
    const message = node === undefined ? finding.message : finding.message.replaceAll(node, '\0');
    const key = JSON.stringify([code, severity, service, port, entry, endpoint, family, message]);
    const group = groups.get(key) ?? {finding, nodes: [], commands: []};
    groups.set(key, group);
    if (node !== undefined) group.nodes.push(node);
    if (finding.command !== undefined) group.commands.push(finding.command);
  }
  return [...groups.values()];
}
