import process from 'node:process';

/**
 * Calls `end` for `q`, and `interrupt` for Ctrl-C, which a terminal in raw mode passes on as a character. Returns a function that stops
 * reading keys.
 */
export function listenForKeys(
  {end, interrupt}: {readonly end: () => void; readonly interrupt: () => void},
  input = process.stdin,
): () => void {
  if (input.isTTY !== true) return () => {};
  const take = (data: Buffer): void => {
    const text = data.toString('latin1');
    if (text.includes('\u0003')) interrupt();
    else if (/[qQ]/.test(text)) end();
  };
  input.setRawMode(true);
  input.on('data', take);
  input.resume();
  return () => {
    input.off('data', take);
    input.setRawMode(false);
    input.pause();
  };
}
