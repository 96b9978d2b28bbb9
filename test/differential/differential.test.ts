import process from 'node:process';
import {execa} from 'execa';
import {expect, test} from 'vitest';
import {triesSome} from '../cases.ts';
import {describeWith} from '../require.ts';

const part = triesSome ? 1 : 3;

// In a process of its own: the second copy of the program is loaded by hooks of Node.js. `npm run test:differential` tries more cases.
test.each([
  ['short cuts, nodes together and nodes in another order find what full walks of each node alone find', 'check', 50 * part],
  ['the same holds in IPVS mode', 'ipvs', 10 * part],
  ['a preview of Service ports in groups lists what walks of each of them show', 'preview', 10 * part],
])('%s', async (_, tried, count) => {
  const {stdout} = await execa(process.execPath, [`${import.meta.dirname}/run.ts`, '--cases', String(count), '--try', tried], {
    reject: false,
  });
  expect(stdout).toBe(`${count} cases from 1 on, 0 failed`);
});

test('an unexpected rule that takes the packets of one Service port does not hide what others lose by a jump', async () => {
  // The rule accepts port 80 in KUBE-EXTERNAL-SERVICES, which a goto skips; the other Service port of the same shape has port 81.
  const {stdout} = await execa(process.execPath, [`${import.meta.dirname}/run.ts`, '--cases', '1', '--seed', '77359'], {reject: false});
  expect(stdout).toBe('1 cases from 77359 on, 0 failed');
});

describeWith(['netns', 'nft'], 'rules that nft printed as JSON', () => {
  test('show the same, whether their bytes are compared, their text, or that of a dump in text', async () => {
    const {stdout} = await execa(process.execPath, [`${import.meta.dirname}/run.ts`, '--cases', '20', '--try', 'nft-json'], {
      reject: false,
    });
    expect(stdout).toBe('20 cases from 1 on, 0 failed');
  });
});
