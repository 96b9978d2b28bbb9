import {expect, test} from 'vitest';
import {endpoint, slice} from '../cluster.ts';
import {containing, type Scenario, scenario} from '../scenario.ts';

const ports = [{name: 'http', port: 8080, protocol: 'TCP'}];

test('an endpoint on a node that the cluster does not have is reported with that node', async () => {
  const given = await cluster();
  given.addSlice(slice('shop/web', [endpoint('10.244.14.4', 'node-x')], {name: 'web-2', ports}));
  expect(given.newFindings()).toEqual([
    {
      ...{code: 'ST109', severity: 'warning', family: 'IPv4', subject: 'shop/web:http'},
      message: containing('1 of 5 endpoints name a node that the cluster does not have (node-x)'),
    },
  ]);
});

test('several endpoints of one Service port are one finding', async () => {
  const given = await cluster();
  const lost = [endpoint('10.244.14.4', 'node-x'), endpoint('10.244.14.5', 'node-x'), endpoint('10.244.14.6', 'node-y')];
  given.addSlice(slice('shop/web', lost, {name: 'web-2', ports}));
  expect(given.newFindings().map(({message}) => message)).toEqual([containing('3 of 7 endpoints', '(node-x, node-y)')]);
});

test('an endpoint without a node name stays silent', async () => {
  const given = await cluster();
  given.addSlice(slice('shop/web', [endpoint('10.244.14.4')], {name: 'web-2', ports}));
  expect(given.newFindings()).toEqual([]);
});

test('stays silent if the Nodes were not read', async () => {
  const given = await cluster();
  given.addSlice(slice('shop/web', [endpoint('10.244.14.4', 'node-x')], {name: 'web-2', ports}));
  given.api(() => ({nodes: null}));
  expect(given.newFindings()).toEqual([]);
});

async function cluster(): Promise<Scenario> {
  const given = await scenario();
  given.leaveOutNodes();
  return given;
}
