import {expect, test} from 'vitest';
import {containing, type Scenario, scenario} from '../scenario.ts';

const place = {code: 'ST209', severity: 'warning', node: 'node-b', family: 'IPv4'};

test('another timeout is reported with both values', async () => {
  const given = await scenario();
  for (const endpoint of ['10.244.11.4', '10.244.11.5', '10.244.12.4'])
    given.rules('node-b').replace(['-A KUBE-SVC-', `"shop/sticky:http -> ${endpoint}:8080"`, 'recent'], '--seconds 10800', '--seconds 60');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, subject: 'shop/sticky:http'},
      message: containing('session affinity of 60 s is programmed, and ClientIP for 10800 s is configured'),
      expected: expect.arrayContaining([expect.stringContaining('--seconds 10800')]),
      actual: expect.arrayContaining([expect.stringContaining('--seconds 60')]),
    },
  ]);
});

test('a client of an endpoint whose rule is missing does not return to it', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-SVC-', '"shop/sticky:http -> 10.244.11.4:8080"', '--rcheck');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, subject: 'shop/sticky:http'},
      message: containing('a returning client is not sent back to its endpoint'),
      expected: [gone],
    },
  ]);
});

test('an endpoint that does not record its clients is found by the rule, although the outcome of the first packet is right', async () => {
  const given = await scenario();
  const right = given
    .rules('node-b')
    .replace(['-A KUBE-SEP-', '"shop/sticky:http"', 'DNAT --to-destination 10.244.11.4:8080'], / -m recent --set .* --rsource/, '');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, subject: 'shop/sticky:http'},
      message: containing('session affinity'),
      expected: [right],
      actual: expect.anything(),
    },
  ]);
});

test('affinity that was configured after the node stopped following is missing', async () => {
  const given = await scenario();
  given.service('shop/web', object => ({...object, spec: {...object.spec, sessionAffinity: 'ClientIP'}}));
  expect(onB(given).map(({code, subject, message}) => ({code, subject, message}))).toEqual([
    {code: 'ST209', subject: 'shop/web:http', message: containing('is not sent back')},
  ]);
});

test('affinity that is no longer configured is unexpected', async () => {
  const given = await scenario();
  given.service('shop/sticky', object => ({...object, spec: {...object.spec, sessionAffinity: 'None'}}));
  expect(onB(given).map(({code, subject, message}) => ({code, subject, message}))).toEqual([
    {code: 'ST209', subject: 'shop/sticky:http', message: containing('session affinity of 10800 s is programmed, and none is configured')},
  ]);
});

test('a missing endpoint is only ST202, and not a lost affinity as well', async () => {
  const given = await scenario();
  given.rules('node-b').deleteAll('-A KUBE-SVC-', '"shop/sticky:http -> 10.244.11.4:8080"');
  expect(given.newFindings().map(({code}) => code)).toEqual(['ST202']);
});

test('a mask and a side that other versions of iptables leave out stay silent', async () => {
  const given = await scenario();
  given.rules('node-b').replaceAll(' --mask 255.255.255.255 --rsource', '');
  expect(given.newFindings()).toEqual([]);
});

test('a default timeout of three hours that is left out stays silent', async () => {
  const given = await scenario();
  given.service('shop/sticky', ({spec: {sessionAffinityConfig: _, ...spec} = {}, ...object}) => ({...object, spec}));
  expect(given.newFindings()).toEqual([]);
});

function onB(given: Scenario) {
  return given.newFindings({nodes: name => name === 'node-b'});
}
