import {describe, expect, test} from 'vitest';
import {readList, watchEvents} from '../../../src/collect/watch/past-events.ts';

async function* inPartsOf(size: number, text: string): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function read(text: string, size = 7) {
  const items: unknown[] = [];
  const metadata = await readList(inPartsOf(size, text), item => items.push(item));
  return {items, metadata};
}

const tricky = [
  {metadata: {name: 'a"]}{['}, spec: {items: [{x: 1}, []], text: '\\"items":['}},
  {metadata: {name: 'ü€𝄞'}, list: [[1, [2]], {}]},
  {},
];

describe('a list that is parsed from a stream', () => {
  test.each([1, 2, 3, 64, 100_000])('equals the result of JSON.parse, in parts of %i bytes', async size => {
    const list = {kind: 'ServiceList', metadata: {resourceVersion: '12'}, items: tricky};
    for (const text of [JSON.stringify(list), JSON.stringify(list, null, 2)])
      expect(await read(text, size)).toEqual({items: tricky, metadata: {resourceVersion: '12'}});
  });

  test('may have its resourceVersion after the items', async () => {
    expect(await read('{"items":[{"a":1}],"metadata":{"resourceVersion":"7"}}')).toEqual({
      items: [{a: 1}],
      metadata: {resourceVersion: '7'},
    });
  });

  test.each(['{"items":[],"metadata":{}}', '{"items":null,"metadata":{}}'])('may be empty: %s', async text => {
    expect(await read(text)).toEqual({items: [], metadata: {}});
  });

  test.each([
    '{"items":[{"a":1},{"b"',
    '{"items":[{"a":1}]',
    '{"items":[{"a":1}',
    '',
    '<html></html>',
    '{"kind":"Status","metadata":{}}',
    'null',
    '{}',
    '{"items":{"a":1}}',
    '{"metadata":{"items":[{"a":1}]}}',
  ])('is refused if it is invalid or truncated: %s', async text => {
    await expect(read(text)).rejects.toThrow(SyntaxError);
  });
});

describe('the events of a watch', () => {
  const text = '{"type":"ADDED","object":{"n":"ü"}}\n\n{"type":"BOOKMARK","object":{}}\n{"type":"CUT';

  test.each([1, 5, 1000])('are read from one line each, in parts of %i bytes, and a truncated line is invalid', async size => {
    const events: unknown[] = [];
    for await (const event of watchEvents(inPartsOf(size, text))) events.push(event);
    expect(events).toEqual([
      {type: 'ADDED', object: {n: 'ü'}},
      {type: 'BOOKMARK', object: {}},
    ]);
  });
});
