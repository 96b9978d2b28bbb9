/**
 * Call it when something large was read and is no longer needed. The executables run on Bun, whose garbage collector frees large buffers
 * and strings late: without this they would stay in memory until the end. Node.js needs no call.
 */
export function dropGarbage(): void {
  const {Bun} = globalThis as {readonly Bun?: {gc(force: boolean): void}};
  Bun?.gc(true);
}
