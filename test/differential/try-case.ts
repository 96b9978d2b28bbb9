import {diagnose} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {PreviewChange} from '../../src/model/preview.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {preview} from '../../src/preview/preview.ts';
import {loadFullWalks} from './full-walks.ts';
import {withNftJson} from './nft-json.ts';
import {randomCase} from './random-case.ts';
import {randomChange} from './random-change.ts';

const {diagnoseInFull, previewInFull} = await loadFullWalks();

/** What is tried: the findings of nodes, also with copies of each Service or in a given proxy mode, or a preview. */
export type Tried = 'check' | 'copies' | 'ipvs' | 'nft-json' | 'preview';

/** What differs between two ways to the same findings: a line for each finding that only one of them has. */
export function tryCase(seed: number, tried: Tried = 'check'): readonly string[] {
  if (tried === 'preview') return tryPreview(seed);
  if (tried === 'check') return tryCheck(randomCase(seed));
  if (tried === 'copies') return tryCheck(randomCase(seed, {copies: 1 + (seed % 3)}));
  if (tried === 'ipvs') return tryCheck(randomCase(seed, {mode: 'ipvs', copies: seed % 3}));
  const inText = randomCase(seed, {mode: 'nftables', copies: seed % 3});
  const printed = inText.nodes.map(withNftJson);
  const nodes = printed.filter(node => node !== null);
  const readable = {...inText, nodes: inText.nodes.filter((_, index) => printed[index] !== null)};
  return [
    ...tryCheck({...inText, nodes, chosenNodes: true}),
    ...differences(
      ['JSON', eachAlone({...inText, nodes}, diagnose).map(withoutPlaces)],
      ['text', eachAlone(readable, diagnose).map(withoutPlaces)],
    ),
  ];
}

function tryCheck(snapshot: Snapshot): readonly string[] {
  const found = ofNodes(diagnose(snapshot, {toolVersion: '0'}).findings);
  const alone = eachAlone(snapshot, diagnose);
  const reversed = ofNodes(diagnose({...snapshot, nodes: snapshot.nodes.toReversed()}, {toolVersion: '0'}).findings);
  const inFull = eachAlone(snapshot, diagnoseInFull);
  return [
    ...differences(['all nodes together', found], ['each node alone', alone]),
    ...differences(['nodes in one order', found], ['in the other', reversed]),
    ...differences(['short cuts', alone.map(withoutExample)], ['full walks', inFull.map(withoutExample)]),
  ];
}

function eachAlone(snapshot: Snapshot, check: typeof diagnose): readonly Finding[] {
  return snapshot.nodes.flatMap(node => ofNodes(check({...snapshot, nodes: [node]}, {toolVersion: '0'}).findings, node.name));
}

function tryPreview(seed: number): readonly string[] {
  const {snapshot, overrides, apiAfter} = randomChange(seed);
  const wholes = [preview, previewInFull].map(ofProgram => {
    const plan = {overrides, configFile: null};
    const {changes, requirements, advice} = ofProgram({
      ...{snapshot, nodes: snapshot.nodes, plan, apiAfter, selects: () => true, scope: [], services: 0, expectedOnly: false, notes: []},
    });
    return [...changes.map(changeText), ...[...requirements, ...advice].map(item => JSON.stringify(item))];
  });
  const [shared = [], inFull = []] = wholes;
  const only = (name: string, own: readonly string[], rest: ReadonlySet<string>): readonly string[] =>
    own.filter(line => !rest.has(line)).map(line => `${name}: ${line}`);
  return [...only('groups, not full walks', shared, new Set(inFull)), ...only('full walks, not groups', inFull, new Set(shared))];
}

function changeText({node, service, port, packet, source, effect, cause, before, after}: PreviewChange): string {
  const ends = [before, after].map(outcomes => JSON.stringify(outcomes)).join(' to ');
  return `${node} ${service.namespace}/${service.name}:${port.name} ${source.kind} ${packet.source} ${packet.destination}:${packet.port} ${effect} ${cause.id} ${ends}`;
}

/** Text and JSON name other places of the same rule, and spell it differently. */
function withoutPlaces({expected: _, actual: __, ...finding}: Finding): Finding {
  return finding;
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

type Findings = readonly [name: string, findings: readonly Finding[]];

function differences([one, ofOne]: Findings, [other, ofOther]: Findings): readonly string[] {
  const [lines, others] = [ofOne, ofOther].map(findings => findings.map(finding => JSON.stringify(finding)));
  const only = (name: string, own: readonly string[] = [], rest: readonly string[] = []): readonly string[] =>
    own.filter(line => !rest.includes(line)).map(line => `${name}: ${summaryOf(line)}`);
  return [...only(`${one}, not ${other}`, lines, others), ...only(`${other}, not ${one}`, others, lines)];
}

function summaryOf(line: string): string {
  const {severity, code, node, family, message}: Finding = JSON.parse(line);
  return [severity, code, node, family, message].join(' ');
}
