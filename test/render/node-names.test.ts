import {expect, test} from 'vitest';
import {nodeList, nodeRanges} from '../../src/render/finding-blocks.ts';
import {nodeTitles} from '../../src/render/table/matrix-cells.ts';

function texts(names: readonly string[]): readonly string[] {
  return nodeRanges(names).map(({text}) => text);
}

const domain = 'eu-central-1.compute.internal';
const eks = (...addresses: readonly string[]): readonly string[] => addresses.map(address => `ip-${address}.${domain}`);

test('names that differ only in one number or the last letter form a range', () => {
  expect(texts(['node-a', 'node-b', 'node-c', 'node-e'])).toEqual(['node-[a-c,e]']);
  expect(texts(['w1', 'w2', 'w10'])).toEqual(['w[1-2,10]']);
  expect(texts(['w01', 'w02', 'w10'])).toEqual(['w[01-02,10]']);
  expect(texts(['10.0.3.17', '10.0.3.18'])).toEqual(['10.0.3.[17-18]']);
});

test('names of EKS nodes form ranges by the last number of the address, not by that of the region', () => {
  expect(texts(eks('10-0-3-17', '10-0-3-18', '10-0-3-40'))).toEqual([`ip-10-0-3-[17-18,40].${domain}`]);
  expect(texts(eks('10-0-3-17', '10-0-4-18'))).toEqual(eks('10-0-3-17', '10-0-4-18'));
});

test('a range counts the host name, and the domain only if the host name has no number and no letter', () => {
  expect(texts(['node-a.rack-1.lan', 'node-b.rack-1.lan'])).toEqual(['node-[a-b].rack-1.lan']);
  expect(texts(['worker.rack-1.lan', 'worker.rack-2.lan'])).toEqual(['worker.rack-[1-2].lan']);
});

test('a range lists no more than eight runs: scattered addresses are several ranges', () => {
  const names = eks(...Array.from({length: 20}, (_, index) => `10-0-3-${index * 3 + 1}`));
  expect(texts(names)).toEqual([
    `ip-10-0-3-[1,4,7,10,13,16,19,22].${domain}`,
    `ip-10-0-3-[25,28,31,34,37,40,43,46].${domain}`,
    `ip-10-0-3-[49,52,55,58].${domain}`,
  ]);
  expect(nodeRanges(names).map(({size}) => size)).toEqual([8, 8, 4]);
  expect(nodeList(names)).toBe(`20 nodes, such as ip-10-0-3-1.${domain}`);
});

test('a range fits into a line, and a sentence has the number of nodes where their names do not', () => {
  const scattered = Array.from({length: 300}, (_, index) => `worker-${String(index).padStart(5, '0')}`).filter((_, index) => index % 3 > 0);
  expect(texts(scattered)[0]).toBe('worker-[00001-00002,00004-00005,00007-00008,00010-00011]');
  expect(nodeList(scattered)).toBe('200 nodes, such as worker-00001');
});

test('columns of long names have letters, and the names and their domain are below the table', () => {
  const nodes = eks('10-0-3-17', '10-0-3-18', '10-0-9-4');
  expect(nodeTitles([{nodes, isRead: true}])).toEqual([
    {title: '3 nodes (A)', legend: [`node names end in .${domain}`, '(A) ip-10-0-3-[17-18], ip-10-0-9-4']},
  ]);
  const [a = '', b = '', c = ''] = nodes;
  expect(nodeTitles([[a, b], [c]].map(own => ({nodes: own, isRead: true}))).map(({title}) => title)).toEqual([
    'ip-10-0-3-[17-18]',
    'ip-10-0-9-4',
  ]);
});
