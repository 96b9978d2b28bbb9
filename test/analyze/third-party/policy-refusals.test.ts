/** Chains are named as those of network policies, and what they do is no policy. */
import {describe, expect, test} from 'vitest';
import {needsAction, type Scenario, scenario} from '../../scenario.ts';
import {someOf} from '../../cases.ts';
import {EditableDump, withRule} from '../../editable-dump.ts';

const names = ['WEAVE-NPC', 'KUBE-POD-FW-ABCDEFGH', 'KUBE-NWPLCY-ABCDEFGH', 'KUBE-ROUTER-FORWARD', 'cali-pi-_default', 'ANTREA-FORWARD'];

describe.each(someOf(names))('in a chain %s', name => {
  test.each([
    '-j DROP',
    '-m conntrack --ctstate NEW -j DROP',
    '-j REJECT --reject-with icmp-port-unreachable',
    '-d 10.244.0.0/16 ! -i lo -j DROP',
    '-m mark ! --mark 0x10000/0x10000 -j DROP',
  ])('a rule "%s" for every pod is an error', async rule => {
    const found = (await withRules([`:${name} - [0:0]`, `-A FORWARD -j ${name}`, `-A ${name} ${rule}`])).filter(needsAction);
    expect(found.map(({code, severity}) => [code, severity])).toContainEqual(['ST303', 'error']);
    expect(found.find(({code}) => code === 'ST303')?.message).toMatch(
      /are sent to an endpoint and then (?:dropped|refused) by a third-party rule: it refuses every sender, and no network policy asks for that/,
    );
  });

  test.each(['-d 10.244.2.0/24 -j DROP', '-s 10.244.1.3/32 -j DROP', '-o veth1 -j DROP', '-m mark --mark 0x20000/0x20000 -j DROP'])(
    'a rule "%s" for some packets stays an info',
    async rule => {
      expect((await withRules([`:${name} - [0:0]`, `-A FORWARD -j ${name}`, `-A ${name} ${rule}`])).filter(needsAction)).toEqual([]);
    },
  );
});

test('a policy that refuses one of several endpoints is an info that names it', async () => {
  const chain = 'KUBE-POD-FW-ABCDEFGH';
  const jumps = ['-A FORWARD -j KUBE-ROUTER-FORWARD', `-A KUBE-ROUTER-FORWARD -d 10.244.11.4/32 -j ${chain}`];
  const found = await withRules([
    `:${chain} -`,
    ':KUBE-ROUTER-FORWARD -',
    ...jumps,
    `-A ${chain} -m mark ! --mark 0x10000/0x10000 -j REJECT`,
  ]);
  expect(found).toContainEqual(
    expect.objectContaining({
      ...{code: 'ST402', severity: 'info'},
      message:
        'shop/web:http: packets from a pod of this node to its cluster IP 10.96.1.1:80 that are sent to 10.244.11.4:8080 are refused by a network policy',
    }),
  );
});

test('a policy for what arrives by an interface is told of clients outside, not of addresses that no pod has', async () => {
  const routes = [
    {dst: 'default', gateway: '172.18.0.1', dev: 'eth0'},
    {dst: '10.244.11.0/25', dev: 'cali4'},
  ];
  const found = await withRules([], given => {
    given.rules('node-a').declare('mangle', 'cali-fh-eth0');
    for (const rule of ['-A PREROUTING -i eth0 -j cali-fh-eth0', '-A cali-fh-eth0 -d 10.96.0.0/16 -j DROP'])
      given.rules('node-a').append('mangle', rule);
    given.file('node-a', 'ip-rules.json', JSON.stringify([{priority: 32_766, src: 'all', table: 'main'}]));
    given.file('node-a', 'routes.json', JSON.stringify(routes));
  });
  const messages = found.map(({message}) => message).filter(message => message.includes('network policy'));
  expect(messages).toEqual([expect.stringMatching(/^packets from outside the cluster to the cluster IP/)]);
});

describe('rules that refuse what comes to one pod', () => {
  const rules = (chain: string) => [`:${chain} -`, `-A FORWARD -d 10.244.11.4/32 -j ${chain}`, `-A ${chain} -j REJECT`];
  const policy = (namespace: string, policyTypes: readonly string[]) => ({
    networkPolicies: [{metadata: {name: 'deny', namespace}, spec: {podSelector: {}, policyTypes}}],
  });

  test.each([
    ['the cluster has no NetworkPolicy', {networkPolicies: []}],
    ['NetworkPolicies of other namespaces alone', policy('infra', ['Ingress'])],
  ])('are left over where %s', async (_, api) => {
    const found = (await withRules(rules('KUBE-POD-FW-ABCDEFGH'), given => given.api(() => api))).filter(needsAction);
    expect(new Set(found.map(({code, severity}) => `${code} ${severity}`))).toEqual(new Set(['ST303 error']));
    const why = /refused by a third-party rule: the cluster has no NetworkPolicy that asks for that, so the rules were left behind/;
    expect(found.filter(({message}) => !why.test(message))).toEqual([]);
    expect(found.length).toBeGreaterThan(0);
  });

  test.each([
    ['NetworkPolicies were not read', 'KUBE-POD-FW-ABCDEFGH', {networkPolicies: null}],
    ['those of some namespaces were read', 'KUBE-POD-FW-ABCDEFGH', {networkPolicies: [], namespaces: ['shop']}],
    ['one selects the pods of the Service', 'KUBE-POD-FW-ABCDEFGH', policy('shop', ['Ingress'])],
    ['one may be about what clients send', 'KUBE-POD-FW-ABCDEFGH', policy('infra', ['Egress'])],
    ['the agent has policies of its own kinds', 'cali-tw-cali1234', {networkPolicies: []}],
  ])('may be asked for where %s', async (_, chain, api) => {
    expect((await withRules(rules(chain), given => given.api(() => api))).filter(needsAction)).toEqual([]);
  });
});

test('where NetworkPolicies select the pods of every Service, they may ask for it', async () => {
  const found = await withRules([':WEAVE-NPC - [0:0]', '-A FORWARD -j WEAVE-NPC', '-A WEAVE-NPC -j DROP'], given =>
    given.api(({services}) => {
      const namespaces = new Set((services ?? []).map(({metadata}) => metadata.namespace ?? 'default'));
      return {networkPolicies: [...namespaces].map(namespace => ({metadata: {name: 'deny', namespace}, spec: {podSelector: {}}}))};
    }),
  );
  expect(found.filter(needsAction)).toEqual([]);
});

test('where they select the pods of one Service, it is an error for the others', async () => {
  const found = await withRules([':WEAVE-NPC - [0:0]', '-A FORWARD -j WEAVE-NPC', '-A WEAVE-NPC -j DROP'], given =>
    given.api(() => ({networkPolicies: [{metadata: {name: 'deny', namespace: 'shop'}, spec: {podSelector: {}}}]})),
  );
  const [blocked] = found.filter(({code}) => code === 'ST303');
  expect(blocked?.severity).toBe('error');
  expect(blocked?.message).toMatch(/infra\/|default\//);
  expect(found.some(({message, severity}) => severity !== 'info' && message.includes('shop/'))).toBe(false);
});

test.each(['filter FORWARD KUBE-SVC-ABC', 'filter FORWARD KUBE-MARK-MASQ', 'mangle FORWARD KUBE-FORWARD', 'nat PREROUTING KUBE-MARK-DROP'])(
  'no name makes a rule for all packets one of kube-proxy: %s',
  async place => {
    const [table = '', hook = '', chain = ''] = place.split(' ');
    const given = await scenario();
    const dump = given.rules('node-a');
    const rules = [`-A ${chain} -j ${table === 'nat' ? 'ACCEPT' : 'DROP'}`, `-A ${hook} -j ${chain}`];
    dump.become(new EditableDump(rules.reduce((text, rule) => withRule(table, rule)(text), dump.toString())));
    const found = (await given.newFindings({nodes: name => name === 'node-a'})).filter(needsAction);
    expect(found.map(({severity, actual}) => [severity, actual?.join()])).toEqual([['error', expect.stringContaining(`-A ${chain} -j`)]]);
  },
);

async function withRules(filter: readonly string[], change: (given: Scenario) => void = () => {}) {
  const given = await scenario();
  const dump = given.rules('node-a');
  for (const line of filter)
    if (line.startsWith(':')) dump.declare('filter', line.slice(1).split(' ')[0] ?? '');
    else dump.append('filter', line);
  change(given);
  return given.newFindings({nodes: name => name === 'node-a'});
}
