import type {PacketAnswer} from '../../../src/analyze/packet-query.ts';
import {isMasqueraded} from './outcome.ts';
import type {Sent} from './lab.ts';
import type {Question} from './questions.ts';
import {chanceOf, type Share} from './shares.ts';

/** The answer of `packet` to a question, by outcome. */
export type Prediction = ReadonlyMap<string, {readonly probability: number; readonly masquerade: boolean}>;

/** A question, what `packet` says, and what the kernel did. */
export interface KernelComparison {
  readonly question: Question;
  readonly prediction: Prediction;
  readonly sent: readonly Sent[];
}

/** Below this, a deviation is not by chance: of the few thousand comparisons of a run one is wrong in a million runs. */
const impossible = 1e-9;

/** The outcomes of `packet`, those that end alike put together. An undecided one comes with its reason. */
export function predictionOf({outcomes}: Pick<PacketAnswer, 'outcomes'>): Prediction {
  const pathOutcomes = new Map<string, {probability: number; masquerade: boolean}>();
  for (const {verdict, destination, probability, masquerade, reason} of outcomes) {
    const accepted = verdict === 'accept';
    const pathOutcome = accepted ? `accept ${destination ?? 'unchanged'}` : reason === undefined ? verdict : `${verdict}: ${reason}`;
    const before = pathOutcomes.get(pathOutcome);
    if (accepted && before !== undefined && before.masquerade !== masquerade) throw new Error(`${pathOutcome} is masqueraded in part`);
    pathOutcomes.set(pathOutcome, {probability: (before?.probability ?? 0) + probability, masquerade: accepted && masquerade});
  }
  return pathOutcomes;
}

/** In words: all in which the kernel did not do what `packet` says. */
export function disagreements({question, prediction, sent}: KernelComparison): readonly string[] {
  const seen = Map.groupBy(sent, ({pathOutcome}) => pathOutcome as string);
  return [...new Set([...prediction.keys(), ...seen.keys()])].flatMap(pathOutcome => {
    const packets = seen.get(pathOutcome) ?? [];
    const said = prediction.get(pathOutcome);
    if (said === undefined)
      return [`${question.title}: ${packets.length} of ${sent.length} ended in ${pathOutcome}, not in ${[...prediction.keys()]}`];
    const masqueraded = isMasqueraded(packets);
    // The kernel also changes a port that another connection has: of few packets, ports show nothing.
    const isShown =
      packets.length > 3 || packets.some(({flow, connection}) => connection !== null && connection.answersTo.address !== flow.source);
    const share = {count: packets.length, total: sent.length, probability: said.probability};
    return [
      ...(pathOutcome.startsWith('accept') && isShown && masqueraded !== said.masquerade
        ? [`${question.title}: ${pathOutcome}: masqueraded: ${masqueraded}, not ${said.masquerade}`]
        : []),
      ...(chanceOf(share) < impossible ? [`${question.title}: ${pathOutcome}: ${shareText(share)}`] : []),
    ];
  });
}

/**
 * The shares of questions put together: of those that have the same answer, and of those that are answered by the same chances,
 * such as all of three endpoints with a third each. So many packets leave little to chance.
 */
export function pooledShares(comparisons: readonly KernelComparison[]): readonly string[] {
  const sameChances = Map.groupBy(comparisons, ({prediction}) =>
    chancesOf(prediction)
      .map(chance => chance.toFixed(4))
      .join(' '),
  );
  const sameAnswer = Map.groupBy(comparisons, ({prediction}) => answerText(prediction));
  return [...sameChances, ...sameAnswer].flatMap(([pool, members]) => {
    const total = members.reduce((sum, {sent}) => sum + sent.length, 0);
    return chancesOf(members[0]?.prediction ?? new Map()).flatMap((probability, at) => {
      const count = members.reduce(
        (sum, {prediction, sent}) => sum + sent.filter(({pathOutcome}) => pathOutcome === [...prediction.keys()][at]).length,
        0,
      );
      const share = {count, total, probability};
      return chanceOf(share) < impossible ? [`of ${pool}, outcome ${at + 1}: ${shareText(share)}`] : [];
    });
  });
}

/** The same for questions with the same answer. */
export function answerText(prediction: Prediction): string {
  return [...prediction]
    .map(([pathOutcome, {probability, masquerade}]) => `${pathOutcome} ${masquerade} ${probability.toFixed(4)}`)
    .join(', ');
}

function chancesOf(prediction: Prediction): readonly number[] {
  return [...prediction.values()].map(({probability}) => probability);
}

function shareText({count, total, probability}: Share): string {
  return `${count} of ${total}, and its probability is ${probability.toFixed(4)}`;
}
