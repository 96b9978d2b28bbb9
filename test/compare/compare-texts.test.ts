import {describe, expect, test} from 'vitest';
import {compareTexts} from '../../src/compare/compare-nft-table.ts';

describe('two lists compared in order', () => {
  test.each([
    ['the same', 'a b c', 'a b c', []],
    ['one missing', 'a b c', 'a c', ['missing b']],
    ['one more', 'a c', 'a b c', ['extra b']],
    ['one in place of another', 'a b', 'a x', ['extra x', 'missing b']],
    ['one twice', 'a b', 'a b b', ['duplicate b']],
    ['one wanted twice and there once', 'a b b', 'a b', ['missing b']],
    ['two exchanged', 'a b c', 'b a c', ['reordered b', 'reordered a']],
    ['exchanged, and one missing', 'a b c', 'c b', ['missing a', 'reordered c', 'reordered b']],
    ['nothing there', 'a b', '', ['missing b', 'missing a']],
  ])('%s', (_, expected, actual, differences) => {
    const list = (text: string): readonly string[] => text.split(' ').filter(word => word !== '');
    const found = compareTexts(list(expected), list(actual), item => item);
    expect(found.map(({kind, item}) => `${kind} ${item}`)).toEqual(differences);
  });
});
