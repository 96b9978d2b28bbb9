/** One event of a watch, as the API server sends it. */
export interface WatchEvent {
  readonly type: string;
  readonly object: unknown;
}

/** The events of a watch, one on each line, while they arrive. Throws a SyntaxError for an invalid line. */
export async function* watchEvents(parts: AsyncIterable<Buffer>): AsyncGenerator<WatchEvent, void, void> {
  let begun: Buffer[] = [];
  for await (const part of parts) {
    let from = 0;
    for (let end = part.indexOf(newline); end >= 0; end = part.indexOf(newline, from)) {
      const line = Buffer.concat([...begun, part.subarray(from, end)]).toString('utf8');
      begun = [];
      from = end + 1;
      if (line.trim() !== '') yield JSON.parse(line) as WatchEvent;
    }
    begun.push(part.subarray(from));
  }
}

const newline = 0x0a;
