// Loaded with --import into each process that is measured. Plain JavaScript, so
// that the measured process is not charged for the type stripper.
import {readFileSync, writeFileSync} from 'node:fs';
import process from 'node:process';
import {isMainThread} from 'node:worker_threads';

// Worker threads load this too; the process's figures include theirs.
if (isMainThread) {
  process.on('exit', () => {
    const {maxRSS, systemCPUTime, userCPUTime} = process.resourceUsage();
    const usage = {cpuMicroseconds: userCPUTime + systemCPUTime, peakKibibytes: ownPeakKibibytes() ?? maxRSS};
    writeFileSync(process.env.BENCH_USAGE_FILE, JSON.stringify(usage));
  });
}

/** On Linux maxRSS is at least what the parent held when it forked; this is not. */
function ownPeakKibibytes() {
  try {
    const peak = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
    return peak === undefined ? undefined : Number(peak);
  } catch {
    return undefined;
  }
}
