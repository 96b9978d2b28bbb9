import {describe, expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, summaryOf, containing, type Scenario, scenario} from '../scenario.ts';

const place = {code: 'ST210', severity: 'error', node: 'node-b', family: 'IPv4', subject: 'shop/lb-ranges:http'};
const entry = 'load-balancer IP 203.0.113.13:80';

test('the capture of ranges that are not enforced has this finding and no other of the node', async () => {
  const found = findingsOf(await snapshotOf('faults/ranges-open')).filter(({node}) => node !== undefined);
  expect(found.map(summaryOf)).toEqual([
    {
      ...{...place, entry},
      message: containing('to its load-balancer IP 203.0.113.13:80 must be dropped', 'loadBalancerSourceRanges are not enforced'),
      expected: expect.anything(),
      actual: expect.anything(),
    },
  ]);
});

test('a missing rule of a range blocks clients that should be allowed', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const gone = dump.delete('-A KUBE-FW-', '-s 198.51.100.0/24');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, entry},
      message: containing('packets from an allowed source range', 'are dropped though loadBalancerSourceRanges allow them'),
      expected: [gone],
      actual: [dump.evidence('-A KUBE-PROXY-FIREWALL', '203.0.113.13/32')],
    },
  ]);
});

test('clients that get in are to be blocked elsewhere until the rules are right; those that are kept out are not', async () => {
  const remedyWithout = async (...words: readonly string[]): Promise<string | undefined> => {
    const given = await scenario();
    given.rules('node-b').delete(...words);
    return given.findings({nodes: name => name === 'node-b', only: new Set(['ST210'])})[0]?.remedy;
  };
  expect(await remedyWithout('-A KUBE-PROXY-FIREWALL', '"shop/lb-ranges:http')).toMatch(/^Read the log .* block the address/);
  const remedy = await remedyWithout('-A KUBE-FW-', '-s 198.51.100.0/24');
  expect(remedy).toMatch(/^Read the log of kube-proxy on this node for why it did not apply the change\./);
  expect(remedy).not.toContain('block');
});

describe('a range that was removed from the Service and is still allowed lets its clients in', () => {
  const old = containing('packets from 192.0.2.8 (not in loadBalancerSourceRanges)', 'loadBalancerSourceRanges are not enforced');
  const found = {code: 'ST210', severity: 'error', subject: 'shop/lb-ranges:http', entry, message: old};

  test('in iptables mode', async () => {
    const given = await scenario();
    const dump = given.rules('node-b');
    const range = dump.line('-A KUBE-FW-', '-s 198.51.100.0/24');
    dump.insertBefore([range], range.replace('198.51.100.0/24', '192.0.2.0/24'));
    expect(given.newFindings()).toMatchObject([{...found, actual: [expect.anything(), dump.evidence('-s 192.0.2.0/24')]}]);
  });

  test('in nftables mode', async () => {
    const given = await scenario('nftables/1.33');
    const dump = given.rules('node-a', 'nft.json').toString();
    const range = '{"prefix": {"addr": "198.51.100.0", "len": 24}}';
    given.file('node-a', 'nft.json', dump.replace(range, `${range.replace('198.51.100.0', '192.0.2.0')}, ${range}`));
    expect(given.newFindings()).toMatchObject([found]);
  });

  test('in IPVS mode', async () => {
    const given = await scenario('ipvs/1.36');
    const dump = given.rules('node-a', 'ipset-save');
    const range = dump.line('add KUBE-LOAD-BALANCER-SOURCE-CIDR', '198.51.100.0/24');
    dump.insertBefore([range], range.replace('198.51.100.0/24', '192.0.2.0/24'));
    expect(given.newFindings({nodes: name => name === 'node-a'})).toMatchObject([found]);
  });

  test('and a part of an allowed range lets in nobody else', async () => {
    const given = await scenario();
    const dump = given.rules('node-b');
    const range = dump.line('-A KUBE-FW-', '-s 198.51.100.0/24');
    dump.insertBefore([range], range.replace('198.51.100.0/24', '198.51.100.64/26'));
    expect(given.newFindings()).toMatchObject([{code: 'ST216', severity: 'info', message: containing('no traffic is affected')}]);
  });
});

test('without the drop after the ranges, packets of all other clients leak', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-PROXY-FIREWALL', '"shop/lb-ranges:http');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, entry},
      message: containing(
        'must be dropped because of loadBalancerSourceRanges, and end in no endpoint at all: they leave the node or hang',
      ),
      expected: [gone],
      actual: expect.anything(),
    },
  ]);
});

test('packets outside the ranges that are rejected and not dropped get in nowhere: a warning', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').replace(['-A KUBE-PROXY-FIREWALL', '203.0.113.13/32'], '-j DROP', '-j REJECT');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, severity: 'warning', entry},
      message: containing('must be dropped because of loadBalancerSourceRanges, and end in a REJECT: they do not get in'),
      expected: [gone],
      actual: expect.anything(),
    },
  ]);
});

test('a rejection does not hide that other packets outside the ranges get in', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.replace(['-A KUBE-PROXY-FIREWALL', '203.0.113.13/32'], '-j DROP', '-j REJECT');
  dump.replace(['-A KUBE-FW-', '-s 203.0.113.0/28'], '-s 203.0.113.0/28', '-s 0.0.0.0/1');
  expect(given.newFindings().map(({code, severity}) => `${code} ${severity}`)).toContain('ST210 error');
});

test('a rejection does not hide that clients inside the ranges are kept out, since the entry is missing', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.replace(['-A KUBE-PROXY-FIREWALL', '203.0.113.13/32'], '-j DROP', '-j REJECT');
  dump.delete('-A KUBE-SERVICES', '203.0.113.13/32');
  expect(given.newFindings().map(({code, severity}) => `${code} ${severity}`)).toContain('ST210 error');
});

test('ranges that were removed from the API are still enforced', async () => {
  const given = await scenario();
  given.service('shop/lb-ranges', ({spec: {loadBalancerSourceRanges: _, ...spec} = {}, ...object}) => ({...object, spec}));
  expect(onB(given).map(({code, severity}) => ({code, severity}))).toEqual([{code: 'ST210', severity: 'error'}]);
});

test('ranges that are in the API and not on the node are not enforced', async () => {
  const given = await scenario();
  given.service('shop/lb-no-nodeport', object => ({...object, spec: {...object.spec, loadBalancerSourceRanges: ['192.0.2.0/24']}}));
  expect(onB(given).map(({code, entry: at}) => ({code, at}))).toEqual([{code: 'ST210', at: 'load-balancer IP 203.0.113.14:80'}]);
});

test('the older rules, which mark packets outside the ranges for dropping, are evaluated the same way', async () => {
  const given = await scenario('healthy/1.23-iptables');
  given.rules('node-b').delete('-A KUBE-FW-', '-s 198.51.100.0/24');
  expect(given.newFindings().map(({code, entry: at, message}) => ({code, at, message}))).toEqual([
    {code: 'ST210', at: entry, message: containing('are dropped though loadBalancerSourceRanges allow them')},
  ]);
});

test('ranges in another order allow the same clients, and no outcome differs', async () => {
  const given = await scenario();
  given.rules('node-b').swapWithNext('-A KUBE-FW-', '-s 198.51.100.0/24');
  expect(given.newFindings().filter(({severity}) => severity !== 'info')).toEqual([]);
});

test('node ports have no ranges: other clients are allowed there by design', async () => {
  const given = await scenario();
  expect(given.rules('node-b').lines('-A KUBE-NODEPORTS', '"shop/lb-ranges:http"', '-j KUBE-EXT-')).toHaveLength(2);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST210');
});

test('ranges with spaces around them, and of the other family, stay silent', async () => {
  const given = await scenario();
  const loadBalancerSourceRanges = [' 198.51.100.0/24', '203.0.113.0/28 ', '2001:db8::/32'];
  given.service('shop/lb-ranges', object => ({...object, spec: {...object.spec, loadBalancerSourceRanges}}));
  expect(given.newFindings()).toEqual([]);
});

function onB(given: Scenario) {
  return given.newFindings({nodes: name => name === 'node-b'});
}
