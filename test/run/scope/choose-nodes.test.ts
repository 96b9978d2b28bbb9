import {expect, test} from 'vitest';
import {chooseNodes} from '../../../src/run/scope/choose-nodes.ts';

const nodes = Array.from({length: 40}, (_, index) => ({metadata: {name: `node-${index}`, labels: {zone: index % 2 === 0 ? 'a' : 'b'}}}));

test('all nodes are chosen, in order, by default', () => {
  const {names, sample} = chooseNodes({}, nodes.toReversed());
  expect(names).toEqual(nodes.map(({metadata}) => metadata.name).sort());
  expect(sample).toBeUndefined();
});

test('nodes are chosen by name and by label', () => {
  expect(chooseNodes({node: ['node-3', 'node-2'], 'node-selector': 'zone=a'}, nodes).names).toEqual(['node-2']);
});

test('an unknown node name is wrong use, with the nearest ones', () => {
  expect(() => chooseNodes({node: ['nod-1']}, nodes)).toThrow(
    expect.objectContaining({oclif: {exit: 2}, suggestions: expect.arrayContaining(['node-1'])}),
  );
});

test('labels that match no node are wrong use', () => {
  expect(() => chooseNodes({'node-selector': 'zone=c'}, nodes)).toThrow('no node matches --node-selector zone=c');
});

test('a sample is the same each time, and reports the number of nodes', () => {
  const first = chooseNodes({sample: 5}, nodes);
  expect(first).toEqual(chooseNodes({sample: 5}, nodes.toReversed()));
  expect(first.names).toHaveLength(5);
  expect(first.sample).toEqual({of: 40});
});

test('most of a sample stays when a node is removed', () => {
  const before = chooseNodes({sample: 10}, nodes).names;
  const gone = before[0];
  const after = chooseNodes(
    {sample: 10},
    nodes.filter(({metadata}) => metadata.name !== gone),
  ).names;
  expect(before.filter(name => after.includes(name))).toHaveLength(9);
});

test('a sample of more nodes than exist contains all of them', () => {
  expect(chooseNodes({sample: 100}, nodes)).toEqual({names: expect.objectContaining({length: 40})});
});
