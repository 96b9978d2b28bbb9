import type {BundledNode} from '../../collect/bundle/write-bundle.ts';
import type {Redaction} from '../../redact/redaction.ts';
import type {Capture} from './capture.ts';
import {redactHistory} from './redact-history.ts';

/** The capture without names and public addresses. API objects are redacted at once, nodes as they arrive. */
export function redactCapture(capture: Capture, redaction: Redaction): Capture {
  const {history, serverVersion} = capture;
  return {
    origin: 'redacted',
    takenAt: capture.takenAt,
    ...(serverVersion === undefined || !isVersion.test(serverVersion) ? {} : {serverVersion}),
    chosenNodes: capture.chosenNodes,
    api: redaction.objects(capture.api),
    nodes: redactNodes(capture, redaction),
    problems: capture.problems.map(problem => redaction.problem(problem)),
    ...(history === undefined ? {} : {history: () => redactHistory(history(), redaction)}),
  };
}

/** Other versions are kept too. Whatever else a server gives as its version can be a name, and is left out. */
const isVersion = /^v?\d+\.\d+[\w.+-]*$/;

async function* redactNodes({nodes, history}: Capture, redaction: Redaction): AsyncIterable<BundledNode> {
  for await (const node of nodes) {
    // The node may have chains of endpoints that no longer exist.
    redactHistory(history?.() ?? null, redaction);
    const {status, reason, remedy, problems = [], missing = []} = node;
    yield {
      ...redaction.node(node),
      ...(status === undefined ? {} : {status}),
      ...(reason === undefined ? {} : {reason: redaction.message(reason)}),
      ...(remedy === undefined ? {} : {remedy: redaction.message(remedy)}),
      problems: problems.map(problem => redaction.problem(problem)),
      missing: missing.map(({file, reason: why}) => ({file, reason: redaction.message(why)})),
    };
  }
}
