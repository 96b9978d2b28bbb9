import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';

const place = {code: 'ST206', severity: 'error', node: 'node-b', family: 'IPv4'};

test('a node port without its rules is reported with them, while the cluster IP answers', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').deleteAll('-A KUBE-NODEPORTS', '"shop/nodeport:http"');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, subject: 'shop/nodeport:http', entry: 'node port 30080'},
      message: containing('its node port 30080 is not programmed, while other entries are'),
      expected: gone,
    },
  ]);
});

test.each([
  '"nodePort for shop/nodeport:http" (:30080/tcp), skipping this nodePort: listen tcp :30080',
  'port, skipping it: err="listen tcp4 :30080',
])('a node port that another process holds is reported with the line of the log: %s', async line => {
  const given = await scenario();
  given.rules('node-b').deleteAll('-A KUBE-NODEPORTS', '"shop/nodeport:http"');
  given.file(
    'node-b',
    'kube-proxy.log',
    `E0918 10:21:56.675529       1 proxier.go:1054] can't open ${line}: bind: address already in use port={Description:nodePort for shop/nodeport:http IP:}\n`,
  );
  expect(given.newFindings()).toMatchObject([{...place, message: containing('Of kube-proxy: its log says:', 'address already in use')}]);
});

test.each([
  ['cluster IP', 'shop/lb-cluster', '10.96.1.5:80'],
  ['load-balancer IP', 'shop/lb-cluster', '203.0.113.10:80'],
  ['external IP', 'shop/external-ips', '198.51.100.11:80'],
])('a missing %s is reported', async (kind, service, address) => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-SERVICES', `"${service}:http `, `-d ${address.split(':')[0]}/32`);
  expect(given.newFindings()).toEqual([
    {
      ...{...place, subject: `${service}:http`, entry: `${kind} ${address}`},
      message: containing(`its ${kind} ${address} is not programmed`),
      expected: [gone],
    },
  ]);
});

test('a node port of a Local Service is reported as missing although the drop for nodes without an endpoint exists', async () => {
  const given = await scenario();
  given.rules('node-b').deleteAll('-A KUBE-NODEPORTS', '"shop/nodeport-local:http"');
  expect(given.newFindings().map(({code, entry}) => ({code, entry}))).toEqual([{code: 'ST206', entry: 'node port 30081'}]);
});

test('a load-balancer IP with source ranges is reported as a missing entry, not as ranges that block everyone', async () => {
  const given = await scenario();
  given.rules('node-b').delete('-A KUBE-SERVICES', '"shop/lb-ranges:http loadbalancer IP"');
  expect(given.newFindings().map(({code, entry}) => ({code, entry}))).toEqual([{code: 'ST206', entry: 'load-balancer IP 203.0.113.13:80'}]);
});

test('entries that are lost behind the same chain are one finding, with the jump to the missing chain', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const gone = dump.delete('-A KUBE-EXT-6SAXVMST6ZA36NLM -j KUBE-SVC-');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, subject: 'shop/lb-ranges:http'},
      message: containing(
        'load-balancer IP 203.0.113.13:80',
        'are sent to KUBE-EXT-6SAXVMST6ZA36NLM, which returns them without an endpoint',
      ),
      expected: [gone],
      actual: expect.anything(),
    },
  ]);
  expect(given.newFindings()[0]?.message).toContain('node port 30085');
});

test('the older rules of kube-proxy 1.23 are evaluated the same way', async () => {
  const given = await scenario('healthy/1.23-iptables');
  given.rules('node-a').delete('-A KUBE-NODEPORTS', '"shop/half-leaving:http"', '-j KUBE-XLB-');
  expect(given.newFindings().map(({code, entry}) => ({code, entry}))).toEqual([{code: 'ST206', entry: 'node port 30091'}]);
});

test('if the only entry is missing, it is ST201 and not this', async () => {
  const given = await scenario();
  given.rules('node-b').delete('-A KUBE-SERVICES', '"shop/web:http cluster IP"');
  expect(given.newFindings().map(({code}) => code)).toEqual(['ST201']);
});

test('a load-balancer IP that kube-proxy leaves to the load balancer (ipMode Proxy) has no rule by design', async () => {
  const given = await scenario();
  expect(given.rules('node-b').lines('203.0.113.11/32')).toEqual([]);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST206');
});

test('a load balancer with only a host name stays silent', async () => {
  const given = await scenario();
  given.service('shop/lb-pending', object => ({...object, status: {loadBalancer: {ingress: [{hostname: 'lb.example.com'}]}}}));
  expect(given.newFindings()).toEqual([]);
});
