// `floor.mjs NODES DIR...`: the unit of the benchmark, the least that any program has to do with bundles. It parses the API objects, which have
// no shorter way in, nor has JSON of nft, and looks at each byte of the dumps of iptables once, for the ends of lines. Plain JavaScript, so that it is not charged for the
// type stripper. It reads each file whole, as that is the fastest; the objects are held until the end, as a program that compares them
// with the dumps has to, and of the dumps one at a time. NODES says of how many nodes of each bundle.
import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';

const newline = 10;
const [nodes, ...dirs] = process.argv.slice(2);
let bytes = 0;
let lines = 0;

const objects = dirs.map(dir => {
  const lists = ['services', 'endpointslices', 'nodes'].map(name => {
    const text = readFileSync(join(dir, 'api', `${name}.json`), 'utf8');
    // The text is ASCII, so its length is its size.
    bytes += text.length;
    return JSON.parse(text).items;
  });
  for (const node of readdirSync(join(dir, 'nodes')).slice(0, Number(nodes))) {
    for (const dump of readdirSync(join(dir, 'nodes', node)).filter(name => /^ip6?tables-save$/.test(name))) {
      const text = readFileSync(join(dir, 'nodes', node, dump));
      bytes += text.length;
      lines += countLines(text);
    }
    for (const dump of readdirSync(join(dir, 'nodes', node)).filter(name => name === 'nft.json')) {
      const text = readFileSync(join(dir, 'nodes', node, dump), 'utf8');
      bytes += text.length;
      lines += JSON.parse(text).nftables.length;
    }
  }
  return lists;
});

function countLines(text) {
  let count = 0;
  // Faster than a loop over the bytes.
  for (let at = text.indexOf(newline); at !== -1; at = text.indexOf(newline, at + 1)) count++;
  return count;
}

const items = objects.flat().reduce((sum, list) => sum + list.length, 0);
process.stdout.write(`${JSON.stringify({bytes, items, lines})}\n`);
