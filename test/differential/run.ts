// `npm run test:differential -- --cases 1000 [--seed 1] [--try copies|ipvs|nft-json|preview]`. nft-json needs root and nft.
import process from 'node:process';
import {parseArgs} from 'node:util';
import {type Tried, tryCase} from './try-case.ts';

const {values} = parseArgs({
  options: {cases: {type: 'string', default: '1000'}, seed: {type: 'string', default: '1'}, try: {type: 'string', default: 'check'}},
});
const [first, count] = [Number(values.seed), Number(values.cases)];
let failed = 0;
for (let seed = first; seed < first + count; seed++) {
  const problems = tryCase(seed, values.try as Tried);
  if (problems.length === 0) continue;
  failed++;
  process.stdout.write(`case ${seed}\n${problems.map(problem => `  ${problem}\n`).join('')}`);
}
process.stdout.write(`${count} cases from ${first} on, ${failed} failed\n`);
if (failed > 0) process.exitCode = 1;
