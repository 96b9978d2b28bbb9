/** Real packets through rules of other programs: what `check` and `packet` say is what the kernel does. */
import process from 'node:process';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {Examination, possibleIn} from './examine.ts';
import {modes} from './laboratory.ts';
import {scenarios} from './scenarios.ts';

const mode = modes.find(name => name === process.env['SVC_TRACE_LABORATORY']) ?? modes[0];

describe(`kube-proxy's rules for ${mode}, and`, () => {
  let examination: Examination;
  beforeAll(async () => {
    examination = await Examination.open(mode);
  });
  afterAll(() => examination[Symbol.asyncDispose]());

  // A flow may be lost, or one of two endpoints missed, by chance.
  test.each(possibleIn(mode, scenarios))('$name', {retry: 2}, async scenario => {
    const {judgement} = await examination.examine(scenario);
    expect({check: judgement.check, packet: judgement.packet}).toEqual({check: [], packet: []});
  });
});
