// The unit of the benchmark: the least that any program has to do with a bundle.
// It parses the API objects, which have no shorter way in, and looks at each
// byte of the dumps once. Plain JavaScript for the reason given in usage-preload.
import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';

const NEWLINE = 10;

const dir = process.argv[2];
let bytes = 0;
let lines = 0;

// Held until the end, as a program that compares them with the dumps has to.
const objects = ['services', 'endpointslices', 'nodes'].map(name => {
  const text = readFileSync(join(dir, 'api', `${name}.json`), 'utf8');
  // The text is ASCII, so its length is its size.
  bytes += text.length;
  return JSON.parse(text).items;
});

for (const node of readdirSync(join(dir, 'nodes'))) {
  for (const dump of ['iptables-save', 'ip6tables-save']) {
    const text = readFileSync(join(dir, 'nodes', node, dump));
    bytes += text.length;
    lines += countLines(text);
  }
}

function countLines(text) {
  let count = 0;
  // Faster than a loop over the bytes.
  for (let at = text.indexOf(NEWLINE); at !== -1; at = text.indexOf(NEWLINE, at + 1)) {
    count++;
  }
  return count;
}

const items = objects.reduce((sum, list) => sum + list.length, 0);
process.stdout.write(`${JSON.stringify({bytes, items, lines})}\n`);
