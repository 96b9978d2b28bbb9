/** One part of a check, and how long it took. */
export interface Stage {
  name: string;
  seconds: number;
}

/** Runs `work` and notes its time under `name`; several runs of one name add up. */
export type TimeStage = <T>(name: string, work: () => T | Promise<T>) => Promise<T>;

/**
 * Where a check's time goes. The place to call the product's own steps on the
 * bundle in `dir`, each inside `time`: parsing, expecting, comparing.
 */
async function runStages(_dir: string, _time: TimeStage): Promise<void> {}

/** Runs after everything else is measured, as it fills this process's memory. */
export async function measureStages(dir: string): Promise<Stage[]> {
  const seconds = new Map<string, number>();
  await runStages(dir, async (name, work) => {
    const started = performance.now();
    const result = await work();
    const took = (performance.now() - started) / 1_000;
    seconds.set(name, (seconds.get(name) ?? 0) + took);
    return result;
  });
  return [...seconds].map(([name, total]) => ({name, seconds: total}));
}
