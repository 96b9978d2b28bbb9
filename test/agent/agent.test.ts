import {describe, expect, test} from 'vitest';
import {Agent, type AgentOptions, whyOutdated} from '../../src/agent/run-agent.ts';
import type {CheckResult} from '../../src/agent/self-check.ts';
import {type AgentResult, maxAge} from '../../src/model/node-result.ts';
import type {Report} from '../../src/model/report.ts';

const result = {report: {status: 'checked'}, judgedAt: 0, intervalSeconds: 60, seconds: 2} as unknown as AgentResult;
const found: CheckResult = {kind: 'result', result, report: {} as Report};
const nothing: CheckResult = {kind: 'trouble', message: 'the API server is away'};

interface Given {
  /** When something changes, in seconds. */
  readonly changes?: readonly number[];
  /** How long each look takes, in seconds. */
  readonly takes?: number;
  readonly look?: CheckResult;
  readonly until: number;
  readonly options?: Partial<AgentOptions>;
}

/** When checks begin, in seconds from the start, with an interval of 60 and a grace period of 15. */
async function looks({changes = [], takes = 1, look = found, until, options = {}}: Given): Promise<readonly number[]> {
  const begun: number[] = [];
  const stop = new AbortController();
  const left = changes.map(seconds => seconds * 1000);
  let now = 0;
  /** Advances the time to this moment, and reports the changes in between. */
  const goTo = (end: number, isOver: () => boolean = () => false) => {
    while (left[0] !== undefined && left[0] <= end && !isOver()) {
      now = left.shift() ?? now;
      agent.noteChange();
    }
    if (!isOver()) now = end;
    if (now >= until * 1000) stop.abort(new Error('over'));
  };
  const agent: Agent = new Agent({
    ...{intervalMs: 60_000, gracePeriodMs: 15_000, startDelayMs: 10_000, random: () => 0.5},
    clock: {
      now: () => now,
      sleep: async (milliseconds, signal) => {
        goTo(now + milliseconds, () => signal.aborted);
        signal.throwIfAborted();
      },
    },
    evaluate: {
      check: async () => {
        begun.push(now / 1000);
        goTo(now + takes * 1000);
        return look;
      },
    },
    ...options,
  });
  await expect(agent.run(stop.signal)).rejects.toThrow('over');
  return begun;
}

describe('a clock that is set', () => {
  /** When checks begin by a clock that nobody sets, in seconds; the node's clock is set by so much after 30 s. */
  async function looksWithClockSet(bySeconds: number): Promise<readonly number[]> {
    const begun: number[] = [];
    const stop = new AbortController();
    let passed = 0;
    const agent = new Agent({
      ...{intervalMs: 60_000, gracePeriodMs: 15_000, startDelayMs: 10_000, random: () => 0.5},
      clock: {
        now: () => 1e12 + passed + (passed > 30_000 ? bySeconds * 1000 : 0),
        sleep: async (milliseconds, signal) => {
          signal.throwIfAborted();
          passed += milliseconds;
        },
      },
      evaluate: {
        check: async () => {
          begun.push(passed / 1000);
          passed += 1000;
          if (begun.length === 4) stop.abort(new Error('over'));
          return found;
        },
      },
    });
    await expect(agent.run(stop.signal)).rejects.toThrow('over');
    return begun;
  }

  test.each([-600, -3600, 600, 0])('by %i s delays no check', async seconds => {
    expect(await looksWithClockSet(seconds)).toEqual([5, 66, 127, 188]);
  });

  test('back makes the last result outdated, and forward does if it is too old by the new time', () => {
    const judgedAt = 1_000_000;
    const atThatTime = {result: {...result, judgedAt}, trouble: null};
    expect(whyOutdated(atThatTime, judgedAt - 4000)).toBeNull();
    expect(whyOutdated(atThatTime, judgedAt - 300_000)).toBe('the clock of the node was set back by 300 s or more since it was checked');
    expect(whyOutdated(atThatTime, judgedAt + 300_000)).toBe('the node was last checked 300 s ago');
  });
});

describe('an agent checks its node', () => {
  test('shortly after its start, and then at every interval', async () => {
    expect(await looks({until: 200})).toEqual([5, 66, 127, 188]);
  });

  test('when the grace period after a change is over', async () => {
    expect(await looks({changes: [20], until: 50})).toEqual([5, 35]);
  });

  test('once for many changes', async () => {
    expect(await looks({changes: [20, 21, 22, 23, 34], until: 50})).toEqual([5, 35]);
  });

  test('again if something changed during the check', async () => {
    expect(await looks({changes: [5.5], until: 25})).toEqual([5, 20.5]);
  });

  test('for at most a tenth of the time, but at every interval, however often objects change', async () => {
    const always = Array.from({length: 400}, (_, second) => second);
    expect(await looks({changes: always, takes: 5, until: 120})).toEqual([5, 55, 105]);
    expect(await looks({changes: always, takes: 30, until: 220})).toEqual([5, 95, 185]);
  });

  test('again shortly after a failure', async () => {
    expect(await looks({look: nothing, takes: 0, until: 10})).toEqual([5, 7, 9]);
    expect(await looks({look: nothing, takes: 3, until: 60})).toEqual([5, 35]);
  });
});

test('the last result of an agent stays while checks fail, with the reason', async () => {
  const answers: CheckResult[] = [found, nothing];
  const stop = new AbortController();
  let now = 0;
  const clock = {
    now: () => now,
    sleep: async (milliseconds: number, signal: AbortSignal) => {
      signal.throwIfAborted();
      now += milliseconds;
    },
  };
  const agent = new Agent({
    ...{intervalMs: 60_000, gracePeriodMs: 0, startDelayMs: 0, clock},
    evaluate: {check: async () => answers.shift() ?? nothing},
    onCheck: () => {
      if (answers.length === 0) stop.abort(new Error('over'));
    },
  });
  await expect(agent.run(stop.signal)).rejects.toThrow('over');
  expect(agent.state).toMatchObject({result, trouble: 'the API server is away', checks: 2, failedChecks: 1});
});

test('a result is valid for three intervals, three checks and a minute', () => {
  const age = maxAge(result) * 1000;
  expect(age).toBe(246_000);
  expect(whyOutdated({result, trouble: null}, age)).toBeNull();
  expect(whyOutdated({result, trouble: 'gone'}, age + 1000)).toBe('the node was last checked 247 s ago: gone');
  expect(whyOutdated({result: null, trouble: 'not yet'}, 0)).toBe('the node has not been checked yet: not yet');
});
