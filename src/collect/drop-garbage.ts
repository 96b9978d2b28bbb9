/**
 * Called when so many bytes have been read and are not needed any more. The executables run on Bun, whose collector does not hurry with
 * large buffers and strings: without it they would be held to the end. Node.js collects them in time by itself.
 */
export function dropGarbage(bytes: number): void {
  const {Bun} = globalThis as {readonly Bun?: {gc(force: boolean): void}};
  if (bytes > worthwhile) Bun?.gc(true);
}

const worthwhile = 10_000_000;
