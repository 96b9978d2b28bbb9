import type {Finding} from '../model/finding.ts';

/** The same finding on many nodes, shown once. The first is shown; the others differ in node and line numbers only. */
export interface FindingGroup {
  readonly finding: Finding;
  readonly nodes: readonly string[];
}

export function groupFindings(findings: readonly Finding[]): readonly FindingGroup[] {
  const groups = new Map<string, {finding: Finding; nodes: string[]}>();
  for (const finding of findings) {
    const {code, severity, service, port, entry, endpoint, family, node} = finding;
    const message = node === undefined ? finding.message : finding.message.replaceAll(node, '\0');
    const key = JSON.stringify([code, severity, service, port, entry, endpoint, family, message]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, {finding, nodes: node === undefined ? [] : [node]});
    else if (node !== undefined) group.nodes.push(node);
  }
  return [...groups.values()];
}
