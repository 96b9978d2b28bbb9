import type {TrafficReport} from '../../model/traffic/traffic-report.ts';
import {unlessInterrupted} from '../clock.ts';
import {type TopRun, TopSession} from './top-session.ts';

interface Top {
  readonly run: TopRun;
  readonly show: (report: TrafficReport) => void;
  /** Two reads are enough. */
  readonly once: boolean;
  /** Aborted when the user quits. */
  readonly ended: AbortSignal;
}

/**
 * Counts the connections of Services at an interval and shows the new ones of each interval. Rejects with an Interrupted when the signal is
 * aborted.
 */
export async function topCluster(top: Top): Promise<void> {
  const session = await TopSession.open(top.run);
  try {
    await showRounds(session, top);
  } finally {
    await session[Symbol.asyncDispose]();
  }
}

async function showRounds(session: TopSession, {run, show, once, ended}: Top): Promise<void> {
  const {clock, signal, interval, progress} = run;
  const both = AbortSignal.any([signal, ended]);
  for (let due = clock.now() + interval; ; due = Math.max(due + interval, clock.now())) {
    progress.say(`counting for ${interval / 1000} s`);
    await clock.sleep(Math.max(due - clock.now(), 0), both).catch(() => signal.throwIfAborted());
    if (ended.aborted) return;
    show(await unlessInterrupted(session.next(), signal));
    if (once) return;
  }
}
