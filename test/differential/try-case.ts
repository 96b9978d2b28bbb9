import {diagnose} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import {loadFullWalks} from './full-walks.ts';
import {randomCase} from './random-case.ts';

const diagnoseInFull = await loadFullWalks();

/** What differs between two ways to the same findings: a line for each finding that only one of them has. */
export function tryCase(seed: number): readonly string[] {
  const snapshot = randomCase(seed);
  const found = ofNodes(diagnose(snapshot, {toolVersion: '0'}).findings);
  const alone = snapshot.nodes.flatMap(node => ofNodes(diagnose({...snapshot, nodes: [node]}, {toolVersion: '0'}).findings, node.name));
  const reversed = ofNodes(diagnose({...snapshot, nodes: snapshot.nodes.toReversed()}, {toolVersion: '0'}).findings);
  const inFull = snapshot.nodes.flatMap(node =>
    ofNodes(diagnoseInFull({...snapshot, nodes: [node]}, {toolVersion: '0'}).findings, node.name),
  );
  return [
    ...differences('all nodes together', found, 'each node alone', alone),
    ...differences('nodes in one order', found, 'in the other', reversed),
    ...differences('short cuts', alone.map(withoutExample), 'full walks', inFull.map(withoutExample)),
  ];
}

/** A finding about a whole node names one of the Service ports that show it: which one depends on those that were walked. */
function withoutExample(finding: Finding): Finding {
  if (finding.service !== undefined) return finding;
  const [before = ''] = finding.message.split('packets from ');
  const counts = finding.message.match(/\d+ Service ports?/g) ?? [];
  return {...finding, message: [before, ...counts].join(' ')};
}

/** Those of one node, or of all nodes. */
function ofNodes(findings: readonly Finding[], name?: string): readonly Finding[] {
  return findings.filter(({node}) => node !== undefined && (name === undefined || node === name));
}

function differences(one: string, ofOne: readonly Finding[], other: string, ofOther: readonly Finding[]): readonly string[] {
  const [lines, others] = [ofOne, ofOther].map(findings => findings.map(finding => JSON.stringify(finding)));
  const only = (name: string, own: readonly string[] = [], rest: readonly string[] = []): readonly string[] =>
    own.filter(line => !rest.includes(line)).map(line => `${name}: ${summaryOf(line)}`);
  return [...only(`${one}, not ${other}`, lines, others), ...only(`${other}, not ${one}`, others, lines)];
}

function summaryOf(line: string): string {
  const {severity, code, node, family, message}: Finding = JSON.parse(line);
  return [severity, code, node, family, message].join(' ');
}
