import process from 'node:process';
import {execa} from 'execa';
import {expect, test} from 'vitest';

// In a process of its own: the second copy of the program is loaded by hooks of Node.js. `npm run test:differential` tries more cases.
test('short cuts, nodes together and nodes in another order find what full walks of each node alone find', async () => {
  const {stdout} = await execa(process.execPath, [`${import.meta.dirname}/run.ts`, '--cases', '150'], {reject: false});
  expect(stdout).toBe('150 cases from 1 on, 0 failed');
});
