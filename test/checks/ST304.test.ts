import {expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, containing, scenario} from '../scenario.ts';

const place = {code: 'ST304', node: 'node-b', family: 'IPv4'};
const tail = ['-A KUBE-SERVICES', '-j KUBE-NODEPORTS'];

test('without the jump to KUBE-NODEPORTS no node port answers: one error, not one for each Service', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete(...tail);
  expect(given.newFindings()).toEqual([
    {
      ...place,
      severity: 'error',
      message: containing('nothing jumps to KUBE-NODEPORTS from nat/KUBE-SERVICES: no node port answers'),
      expected: [gone],
    },
  ]);
});

test('an empty KUBE-NODEPORTS is one error, and other faults of Services with node ports are still found', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const gone = dump.deleteAll('-A KUBE-NODEPORTS ').filter(rule => !rule.includes('health check'));
  dump.delete('-A KUBE-SVC-', '"shop/nodeport:http -> 10.244.11.4:8080"');
  expect(given.newFindings().filter(({code}) => code !== 'ST219')).toMatchObject([
    {code: 'ST202', node: 'node-b', subject: 'shop/nodeport:http'},
    {
      ...place,
      severity: 'error',
      message: `nat/KUBE-NODEPORTS is empty, and lacks all ${gone.length} that it should hold: no node port answers on this node`,
    },
  ]);
});

test('a KUBE-NODEPORTS that lost most of its rules is one error, for the Services whose node ports do not answer', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const rules = dump.lines('-A KUBE-NODEPORTS ', '"', 'KUBE-EXT');
  for (const rule of rules.slice(4)) dump.delete(rule);
  expect(given.newFindings()).toMatchObject([
    {
      ...place,
      message: expect.stringMatching(
        `^nat/KUBE-NODEPORTS lacks ${rules.length - 4} of the \\d+ rules that it should hold: \\d+ Services \\(such as \\S+\\) do not answer there$`,
      ),
    },
  ]);
});

test('a jump for another address than the node’s counts as missing', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const right = dump.replace(tail, '-A KUBE-SERVICES ', '-A KUBE-SERVICES -d 172.18.0.99/32 ');
  expect(given.newFindings()).toEqual([
    {
      ...{
        ...place,
        severity: 'error',
        message: 'the jump to KUBE-NODEPORTS is restricted to other packets than it should be: node ports do not answer where they should',
      },
      expected: [right],
      actual: [dump.evidence('172.18.0.99')],
    },
  ]);
});

test('a jump that half of the packets miss loses their connections', async () => {
  const given = await scenario();
  given.rules('node-b').replace(tail, '-j KUBE-NODEPORTS', '-m statistic --mode random --probability 0.50000000000 -j KUBE-NODEPORTS');
  expect(given.newFindings()).toMatchObject([{...place, severity: 'error', message: containing('do not answer where they should')}]);
});

test('a jump for every address takes packets to other hosts, too', async () => {
  const given = await scenario();
  given.rules('node-b').replace(tail, '-m addrtype --dst-type LOCAL ', '');
  expect(given.newFindings()).toMatchObject([{...place, severity: 'warning', message: containing('on which they should not')}]);
});

test.each([
  ['a warning when the addresses of the node were read', 'warning', '[{"ifname":"eth0","addr_info":[{"local":"172.18.0.11"}]}]'],
  ['an info when they were not, since the address may be the node’s', 'info', null],
])('node ports that answer on more addresses than nodePortAddresses names are %s', async (_, severity, addresses) => {
  const given = await scenario('settings/nodeport-addresses');
  given.file('node-a', 'addresses.json', addresses);
  const [node = ''] = given.snapshot().nodes.map(({name}) => name);
  const dump = given.rules(node);
  const [first = ''] = dump.lines(...tail);
  dump.insertAfter([first], first.replace(/-d \S+/, '-d 172.18.0.250/32'));
  expect(given.newFindings()).toEqual([
    {
      ...{...place, node, severity, message: containing('node ports answer on addresses that nodePortAddresses does not name')},
      actual: [dump.evidence('172.18.0.250/32')],
    },
  ]);
});

test.each([
  ['nodePortAddresses were restricted', 'settings/nodeport-addresses', /-d \S+ (.*)-j/, '$1-m addrtype --dst-type LOCAL -j'],
  ['node ports on loopback addresses were turned off', 'settings/no-localhost-nodeports', '! -d 127.0.0.0/8 ', ''],
])(
  'if %s, and kube-proxy was not restarted, node ports answer where they should not, and everywhere else',
  async (_, capture, part, by) => {
    const given = await scenario(capture);
    const dump = given.rules('node-b');
    const right = dump.replace(tail, part, by);
    expect(given.newFindings()).toEqual([
      {
        ...{...place, severity: 'warning'},
        message:
          'the jump to KUBE-NODEPORTS is not restricted to the expected addresses: node ports answer on addresses on which they should not',
        expected: [right],
        actual: [dump.evidence(...tail)],
      },
    ]);
  },
);

test('the jumps for nodePortAddresses stay silent', async () => {
  for (const name of ['settings/nodeport-addresses', 'settings/nodeport-primary'])
    expect(findingsOf(await snapshotOf(name)).map(({code}) => code)).not.toContain('ST304');
});

test('without localhost node ports the jump excludes the loopback addresses by design', async () => {
  expect(findingsOf(await snapshotOf('settings/no-localhost-nodeports')).map(({code}) => code)).not.toContain('ST304');
});

test('one missing node port behind the jump is ST206 and not this', async () => {
  const given = await scenario();
  given.rules('node-b').deleteAll('-A KUBE-NODEPORTS', '"shop/nodeport:http"');
  expect(given.newFindings().map(({code}) => code)).toEqual(['ST206']);
});
