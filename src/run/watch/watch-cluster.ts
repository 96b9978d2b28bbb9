import {Errors} from '@oclif/core';
import {ClusterReader} from '../../collect/cluster/cluster-reader.ts';
import {readServices} from '../../collect/cluster/read-cluster.ts';
import {ApiError} from '../../collect/kube/kube-api.ts';
import type {Report} from '../../model/report.ts';
import {Interrupted} from '../clock.ts';
import {unlessAborted} from '../../collect/unless-aborted.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {diagnoseCluster} from '../diagnose-cluster.ts';
import {isThere} from '../reread.ts';
import {askedInput, askedScope} from '../scope/requested-scope.ts';
import {printOf} from '../service-history.ts';
import {type PassingService, PassingServices} from './passing-services.ts';

interface Watching {
  readonly run: ClusterRun;
  /** Everything is checked again after this time, in milliseconds, even if nothing changed. */
  readonly interval: number;
  /** Shows the report of a check that ended at this time (milliseconds since 1970), and the Services that were there only in between. */
  readonly show: (report: Report, at: number, passed: readonly PassingService[]) => void;
  /** Shows why a check failed; it will be repeated. */
  readonly trouble: (message: string) => void;
}

/**
 * Checks the cluster whenever a requested Service or its slices change, and at an interval otherwise. Never resolves: rejects with an
 * Interrupted when the signal is aborted, and like diagnoseCluster if the first check fails.
 */
export async function watchCluster(watching: Watching): Promise<never> {
  const passing = new PassingServices(watching.run);
  const end = new AbortController();
  const following = passing.follow(AbortSignal.any([watching.run.signal, end.signal]));
  try {
    return await checkRepeatedly(watching, passing);
  } finally {
    end.abort();
    await following;
  }
}

async function checkRepeatedly(watching: Watching, passing: PassingServices): Promise<never> {
  const {run, show, trouble} = watching;
  const {signal, clock} = run;
  for (let isFirst = true; ; isFirst = false) {
    const began = clock.now();
    const print = await unlessAborted(pollServices(run), signal);
    const result = await tryToCheck(run);
    signal.throwIfAborted();
    if (result.kind === 'report') show(result.report, clock.now(), passing.take());
    else if (isFirst) throw result.error;
    else trouble(result.error.message);
    await untilChanged(watching, {print, passing, took: clock.now() - began});
  }
}

type Look = {readonly kind: 'report'; readonly report: Report} | {readonly kind: 'failure'; readonly error: Error};

/** A check that cannot read the cluster may succeed later; any other error is a bug. */
function tryToCheck(run: ClusterRun): Promise<Look> {
  return diagnoseCluster(run).then(
    report => ({kind: 'report', report}) as const,
    (error: unknown) => {
      if (error instanceof Interrupted || !(error instanceof ApiError || error instanceof Errors.CLIError)) throw error;
      return {kind: 'failure', error} as const;
    },
  );
}

interface Check {
  /** Of the Services and slices when it began; null if they could not be read. */
  readonly print: string | null;
  readonly passing: PassingServices;
  /** In milliseconds. */
  readonly took: number;
}

/** Polls every few seconds, and pauses for as long as a check took. A Service that is gone can have left rules behind. */
async function untilChanged({run, interval}: Watching, {print, passing, took}: Check): Promise<void> {
  const {clock, signal, progress} = run;
  const due = clock.now() + Math.max(interval, took);
  const pace = Math.max(Math.min(pollEvery, interval), Math.min(took, interval));
  while (clock.now() < due) {
    progress.say('');
    await unlessAborted(clock.sleep(Math.min(pace, due - clock.now()), signal), signal);
    if (passing.isAny) return;
    const now = await unlessAborted(pollServices(run), signal);
    if (now !== null && now !== print) return;
  }
}

/** In milliseconds. */
const pollEvery = 5000;

/**
 * A text that changes whenever a Service or slice of the requested scope changes; null if they cannot be read. Reads the lists again: this
 * needs no more permissions than a check, while a watch of the API server does.
 */
async function pollServices(run: ClusterRun): Promise<string | null> {
  const objects = await readServices(askedScope(askedInput(run)), new ClusterReader(run.cluster.api, {anyFailure: true}));
  return isThere(objects) ? printOf(objects.services ?? [], objects) : null;
}
