import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {Errors} from '@oclif/core';
import type {PacketAnswer} from '../../src/analyze/packet-query.ts';
import {readBundle, UnreadableBundle} from '../../src/collect/bundle/read-bundle.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {askNodes} from '../../src/run/packet/packet-flags.ts';

/** A packet that every form of the same rules is asked about. */
export interface Question {
  readonly source: string;
  readonly destination: string;
  readonly port: string;
  readonly protocol?: string;
}

/** The outcomes of the packet, each with its probability in percent. */
export type Answer = ReadonlyMap<string, number>;

/** The addresses of the node that every question is asked on. */
export const nodeAddresses: readonly string[] = ['172.18.0.11', 'fc00:f853:ccd:e793::11', '10.244.11.1'];

/** Puts the text into a file, as a user does, and asks `packet` about it. */
export async function askText(
  text: string | Buffer,
  questions: readonly Question[],
  addresses: readonly string[] = nodeAddresses,
): Promise<readonly Answer[]> {
  const folder = mkdtempSync(join(tmpdir(), 'pasted-'));
  try {
    const file = join(folder, 'rules.txt');
    writeFileSync(file, text);
    const snapshot = await readBundle(file).catch(unlessUnreadable);
    return questions.map(question => (snapshot === null ? undetermined : askSnapshot(question, snapshot, addresses)));
  } finally {
    rmSync(folder, {recursive: true});
  }
}

const undetermined: Answer = new Map([['undecided', 100]]);

/** The answer of the first node. */
export function askSnapshot(question: Question, snapshot: Snapshot, addresses: readonly string[] = nodeAddresses): Answer {
  const answer = ask(question, snapshot, addresses);
  if (answer === null) return undetermined;
  const outcomes = new Map<string, number>();
  for (const {verdict, destination, masquerade, probability} of answer.outcomes) {
    const key =
      verdict === 'undecided' ? verdict : `${verdict} ${destination} ${masquerade && verdict === 'accept' ? 'masqueraded' : ''}`.trim();
    outcomes.set(key, (outcomes.get(key) ?? 0) + probability * 100);
  }
  return outcomes;
}

function unlessUnreadable(error: unknown): null {
  if (error instanceof UnreadableBundle) return null;
  throw error;
}

/** Null where the text holds nothing of the family, or nothing that is understood: `packet` says so and gives no answer. */
function ask(question: Question, snapshot: Snapshot, addresses: readonly string[]): PacketAnswer | null {
  try {
    return askNodes({...question, 'local-address': addresses}, snapshot, () => true)[0] ?? null;
  } catch (error) {
    if (error instanceof Errors.CLIError && error.oclif.exit === 3) return null;
    throw error;
  }
}

/** The same outcomes, as a text that compares. */
export function answerText(answer: Answer): string {
  return [...answer]
    .map(([outcome, percent]) => `${percent.toFixed(1)}% ${outcome}`)
    .sort()
    .join(', ');
}

/** Why an answer breaks the law: it is not that of the dump, and not undetermined either. Null when it keeps it. */
export function breach(answer: Answer, ofDump: Answer): string | null {
  const wrong = [...answer].filter(([outcome, percent]) => outcome !== 'undecided' && percent > (ofDump.get(outcome) ?? 0) + 0.1);
  return wrong.length === 0 ? null : `${answerText(answer)} instead of ${answerText(ofDump)}`;
}
