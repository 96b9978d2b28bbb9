// Prints the folder of one of the tests' captures, such as faults/wrong-dnat, with what it shares with others: `--from` reads it.
import process from 'node:process';
import {captureGroups, captureNames, capturePath} from '../test/fixtures.ts';

const [name = ''] = process.argv.slice(2);
const names = captureNames(...captureGroups);
if (names.includes(name)) {
  console.log(capturePath(name));
} else {
  console.error(`There is no capture "${name}". These are there: ${names.join(', ')}`);
  process.exit(1);
}
