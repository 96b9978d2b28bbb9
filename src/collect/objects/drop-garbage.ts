/**
 * Called when something large has been read and is not needed any more. The executables run on Bun, whose collector does not hurry with
 * large buffers and strings: without it they would be held to the end. Node.js lets go of them in time by itself.
 */
export function dropGarbage(): void {
  const {Bun} = globalThis as {readonly Bun?: {gc(force: boolean): void}};
  Bun?.gc(true);
}
