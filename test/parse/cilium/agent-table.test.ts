import {expect, test} from 'vitest';
import {parseServiceList} from '../../../src/parse/cilium/agent-table.ts';

const row = (ip: string) => {
  const realized = {'frontend-address': {ip, port: 80, protocol: 'TCP'}, flags: {type: 'ClusterIP', namespace: 'shop', name: 'web'}};
  return {spec: {...realized, id: 1}, status: {realized}};
};
const addresses = (rows: readonly unknown[]) => parseServiceList(JSON.stringify(rows))?.map(({address}) => address);

test('each row of the list is read, whatever comes first in it', () => {
  const [a, b] = [row('10.0.0.1'), row('10.0.0.2')];
  expect(addresses([a, b])).toEqual(['10.0.0.1', '10.0.0.2']);
  expect(addresses([a, b].map(({spec, status}) => ({status, spec})))).toEqual(['10.0.0.1', '10.0.0.2']);
  expect(addresses([a, b].map(({status}) => ({status})))).toEqual(['10.0.0.1', '10.0.0.2']);
});

test('a list of which a row lacks what the agent realized is not read as a shorter one', () => {
  const {spec} = row('10.0.0.1');
  expect(addresses([{spec}, row('10.0.0.2')])).toBeUndefined();
  expect(addresses([row('10.0.0.2'), {spec}])).toBeUndefined();
});
