import type {LookUp} from './complete.ts';

/** Looks up codes in the program, and names in a bundle or cluster. A request may take half of `patience` (milliseconds). */
export function lookUpWithin(patience: number): LookUp {
  return async (kind, words, typed) => {
    if (kind !== 'codes') {
      const {lookUpNames} = await import('./look-up-names.ts');
      return lookUpNames(kind, words, {typed, requestTimeout: patience / 2});
    }
    const {checks} = await import('../../checks/index.ts');
    return checks.map(({code, name, summary}) => ({value: code, description: `${name}: ${summary}`}));
  };
}
