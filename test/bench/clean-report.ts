interface Report {
  summary: {
    verdict: string;
    errors: number;
    warnings: number;
    nodesChecked: number;
    nodesUnread: number;
    services: number;
    servicePorts: number;
  };
  findings: {code: string; severity: string}[];
}

/**
 * Throws unless the report says that all nodes were looked at and are right.
 * The figures of a check that skips its work, or that finds faults where there
 * are none, would mean nothing.
 */
export function assertClean({exitCode, stdout}: {exitCode: number; stdout: string}, nodes: number): void {
  if (exitCode !== 0) {
    throw new Error(`check ended with exit code ${exitCode}:\n${beginning(stdout)}`);
  }
  const {findings, summary} = JSON.parse(stdout) as Report;
  // ST1xx are about the API objects: some Services of the cluster have no endpoints, on purpose.
  const serious = findings.filter(({code, severity}) => severity !== 'info' && !code.startsWith('ST1'));
  const wrong = [
    // Information alone makes the verdict "findings", and is no fault.
    !['ok', 'findings'].includes(summary.verdict) && `the verdict is ${summary.verdict}`,
    summary.nodesChecked !== nodes && `${summary.nodesChecked} of ${nodes} nodes were checked`,
    summary.nodesUnread !== 0 && `${summary.nodesUnread} nodes were not read`,
    (summary.services === 0 || summary.servicePorts === 0) && 'no Service was looked at',
    serious.length > 0 && `${serious.length} findings on a cluster that is right, such as ${JSON.stringify(serious.slice(0, 3), null, 2)}`,
  ].filter(reason => reason !== false);
  if (wrong.length > 0) {
    throw new Error(`check does not find the synthetic cluster clean: ${wrong.join('; ')}`);
  }
}

function beginning(text: string): string {
  return text.length > 2_000 ? `${text.slice(0, 2_000)}…` : text;
}
