import {expect, test} from 'vitest';
import {needsAction, containing, scenario} from '../../scenario.ts';

const place = {code: 'ST216', severity: 'error', node: 'node-b', family: 'IPv4'};

test('a node-port rule without its port intercepts the packets of all later node ports', async () => {
  const given = await scenario();
  given.rules('node-b').replace(['-A KUBE-NODEPORTS -p tcp', '"shop/nodeport:http"'], ' -m tcp --dport 30080', '');
  expect(given.newFindings().filter(needsAction)).toEqual([
    {...place, message: containing('a rule in nat/KUBE-NODEPORTS', 'without it in'), actual: expect.anything()},
  ]);
});

test('a rule without its address intercepts the packets of other Services with its port', async () => {
  const given = await scenario();
  given.rules('node-b').replace(['-A KUBE-SERVICES', '"shop/manual:db cluster IP"'], '-d 10.96.1.24/32 -p tcp', '-p tcp');
  given.rules('node-b').replace(['-A KUBE-SERVICES', '"shop/manual:db cluster IP"'], '--dport 5432', '--dport 80');
  expect(given.newFindings().filter(needsAction)).toEqual(
    expect.arrayContaining([{...place, message: containing('a rule in nat/KUBE-SERVICES', 'without it in'), actual: expect.anything()}]),
  );
});

test('a rule without its protocol match intercepts no other packets, and stays silent', async () => {
  const given = await scenario();
  given.rules('node-b').replace(['-A KUBE-SERVICES', '"shop/empty:http has no endpoints"'], ' -p tcp -m comment', ' -m comment');
  expect(given.newFindings().filter(needsAction)).toEqual([]);
});
