import {expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {nftScenario, replaced} from '../nft-scenario.ts';
import {findingsOf, summaryOf, containing, scenario} from '../scenario.ts';

const place = {code: 'ST211', node: 'node-b', family: 'IPv4'};

test('an endpoint whose own connections are not masqueraded never gets a reply: an error with the endpoint', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-SEP-', '-s 10.244.12.4/32', '"shop/web:http"', '-j KUBE-MARK-MASQ');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, severity: 'error', subject: 'shop/web:http', entry: 'cluster IP 10.96.1.1:80', endpoint: '10.244.12.4:8080'},
      message: containing(
        'packets from endpoint 10.244.12.4:8080 to itself',
        'should be masqueraded and are not: a pod that reaches itself through the Service never gets a reply',
      ),
      expected: [gone],
    },
  ]);
});

test('the capture of a missing hairpin rule has this finding and no other of the node', async () => {
  const found = findingsOf(await snapshotOf('faults/no-hairpin')).filter(({node}) => node !== undefined);
  expect(found.map(summaryOf)).toEqual([
    expect.objectContaining({code: 'ST211', severity: 'error', node: 'node-a', endpoint: '10.244.11.4:8080'}),
  ]);
});

test('a rule in the chain of an endpoint that sets or takes the mark is the evidence', async () => {
  const chain = '-A KUBE-SEP-YE46JM77HMULEYF6';
  for (const [before, rule, who] of [
    ['-j KUBE-MARK-MASQ', `${chain} ! -s 10.244.11.64/26 -j MARK --set-xmark 0x4000/0x4000`, 'packets from a pod of this node'],
    ['-j DNAT', `${chain} -j MARK --set-xmark 0x0/0x4000`, 'packets from endpoint 10.244.12.4:8080 to itself'],
  ] as const) {
    const given = await scenario();
    given.rules('node-a').insertBefore([chain, before], rule);
    const found = given.newFindings();
    expect(found.length).toBeGreaterThan(0);
    for (const finding of found)
      expect(finding).toMatchObject({...place, node: 'node-a', subject: 'shop/web:http', actual: [containing(rule)]});
    expect(found[0]?.message).toContain(who);
  }
});

test('external traffic under the Cluster policy that keeps its source gets no replies: one error for all entries', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-EXT-', '"masquerade traffic for shop/lb-cluster:http external');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, severity: 'error', subject: 'shop/lb-cluster:http', entry: expect.anything()},
      message: containing('should be masqueraded and are not: '),
      expected: [gone],
    },
  ]);
});

test('cluster-IP traffic from other clients than pods is served without it, and is a warning', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-SVC-', '"shop/web:http cluster IP"', '-j KUBE-MARK-MASQ');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, severity: 'warning', subject: 'shop/web:http', entry: 'cluster IP 10.96.1.1:80'},
      message: containing(
        'through its cluster IP 10.96.1.1:80 should be masqueraded and are not',
        'where their answers do not pass this node, connections time out',
      ),
      expected: [gone],
    },
  ]);
});

test.each([
  ['cluster-ips', 'warning', 'packets from outside the cluster through its cluster IP 10.96.0.1:443 should be masqueraded and are not'],
  ['hairpin-connections', 'error', 'a pod that reaches itself through the Service never gets a reply'],
])('in nftables mode an emptied set %s is one %s, not one for each Service', async (set, severity, effect) => {
  const given = await nftScenario(replaced(new RegExp(`(set ${set} \\{[^}]*?)\\t\\telements = \\{[^}]*\\}\\n`), '$1'));
  expect(given.newFindings()).toMatchObject([
    {code: 'ST211', node: 'node-a', severity, message: containing(`set ${set} of ip kube-proxy is empty, and lacks all `, effect)},
  ]);
});

test('in nftables mode the address of a Service is one element of cluster-ips, however many ports it has', async () => {
  let count = 0;
  const given = await nftScenario(ruleset => {
    const elements = /set cluster-ips \{[^}]*?\telements = \{([^}]*)\}\n/.exec(ruleset) ?? [''];
    count = elements[1]?.split(',').length ?? 0;
    return ruleset.replace(elements[0], elements[0].replace(/\telements = \{[^}]*\}\n/, ''));
  });
  const [emptied, ...others] = given.newFindings();
  expect(count).toBeGreaterThan(20);
  expect(emptied?.message).toContain(`set cluster-ips of ip kube-proxy is empty, and lacks all ${count} that it should hold`);
  expect(others).toEqual([]);
});

test('a rule that masquerades all packets hides the addresses of pods', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const right = dump.replace(['-A KUBE-SVC-', '"shop/web:http cluster IP"', '-j KUBE-MARK-MASQ'], '! -s 10.244.0.0/16 ', '');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, severity: 'warning', subject: 'shop/web:http', entry: 'cluster IP 10.96.1.1:80'},
      message: containing(
        'packets from a pod of this node',
        "are masqueraded and should not be: endpoints, logs and network policies see the node's address",
      ),
      expected: [right],
      actual: [dump.evidence('-A KUBE-SVC-', '"shop/web:http cluster IP"', '-j KUBE-MARK-MASQ')],
    },
  ]);
});

test('the node’s own traffic to a Local Service that keeps its source is a warning', async () => {
  const given = await scenario();
  given.rules('node-a').delete('-A KUBE-EXT-', '"masquerade LOCAL traffic for shop/lb-local:http');
  expect(given.newFindings().map(({code, severity, message}) => ({code, severity, message}))).toEqual([
    {code: 'ST211', severity: 'warning', message: containing('packets from the node itself', 'should be masqueraded and are not')},
  ]);
});

test('the older rules, in which the SVC chain masquerades each entry separately, are evaluated the same way', async () => {
  const given = await scenario('healthy/1.23-iptables');
  const gone = given.rules('node-b').delete('-A KUBE-SVC-', '"shop/nodeport:http"', '--dport 30080', '-j KUBE-MARK-MASQ');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, severity: 'error', subject: 'shop/nodeport:http', entry: 'node port 30080'},
      message: containing('through its node port 30080 should be masqueraded and are not'),
      expected: [gone],
    },
  ]);
});

test('a wrong policy masquerades other packets, and is only ST207', async () => {
  const given = await scenario();
  given.service('shop/nodeport', object => ({...object, spec: {...object.spec, externalTrafficPolicy: 'Local'}}));
  expect(given.newFindings({nodes: name => name === 'node-c'}).map(({code}) => code)).toEqual(['ST207']);
});

test('masqueradeAll masquerades pods by design: the capture with that setting stays silent', async () => {
  const found = findingsOf(await snapshotOf('settings/masquerade-all'));
  expect(found.map(({code}) => code)).not.toContain('ST211');
});

test('a missing hairpin rule of an endpoint that the Service does not use is not reported', async () => {
  const given = await scenario();
  expect(given.rules('node-b').lines('-s 10.244.12.5/32')).toEqual([]);
  expect(given.newFindings()).toEqual([]);
});

const chain = 'KUBE-SEP-M5HVGPPKKJ75V6WO';

test.each(['DROP', 'RETURN', 'ACCEPT'])(
  'packets of an endpoint to itself that a %s takes are lost, and no missing endpoint: others reach it',
  async target => {
    const given = await scenario();
    given.rules('node-a').replace([`-A ${chain} -s 10.244.11.4/32`], 'KUBE-MARK-MASQ', target);
    expect(given.newFindings().filter(({severity}) => severity !== 'info')).toMatchObject([
      {
        ...{code: 'ST211', severity: 'error', subject: 'shop/web:http', endpoint: '10.244.11.4:8080'},
        message: containing('packets from endpoint 10.244.11.4:8080 to itself through its cluster IP', 'are lost'),
      },
    ]);
  },
);

test('an endpoint that nobody reaches is missing, and its own packets are no finding beside', async () => {
  const given = await scenario();
  const hairpin = given.rules('node-a').line(`-A ${chain} -s 10.244.11.4/32`);
  given.rules('node-a').replace([hairpin], hairpin, `-A ${chain} -j DROP`);
  expect(given.newFindings().flatMap(({severity, code}) => (severity === 'error' ? [code] : []))).toEqual(['ST202']);
});

test('where another program masquerades packets under a Local policy, the remedy is about its rule', async () => {
  const given = await scenario();
  given.rules('node-b').append('nat', '-A POSTROUTING ! -s 10.244.0.0/16 -d 10.244.0.0/16 -j MASQUERADE');
  const found = given.findings({nodes: name => name === 'node-b'}).filter(({code, severity}) => code === 'ST211' && severity === 'error');
  expect(new Set(found.map(({remedy}) => remedy))).toEqual(
    new Set([containing('Find out which tool wrote the rule', 'A restart of kube-proxy does not')]),
  );
});
