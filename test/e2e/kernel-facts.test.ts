import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {nodeFacts} from '../../src/expect/read-node-facts.ts';
import {parseAddress} from '../../src/model/address.ts';
import {type NetworkFacts, routeOf, sysctlNumber} from '../../src/model/node/node-facts.ts';
import {apiObjects} from '../cluster.ts';
import {describeWith} from '../require.ts';
import {Namespace, readNode} from './kernel/namespace.ts';

async function factsOf(namespace: Namespace): Promise<NetworkFacts> {
  const {network} = nodeFacts(await readNode(namespace), apiObjects({}));
  if (network === undefined) throw new Error('no facts');
  return network;
}

const devices = ['p0', 'p1', 'p2', 'cni0'];

function pick<T>(random: () => number, list: readonly T[]): T {
  return list[Math.floor(random() * list.length)] as T;
}

/** A linear congruential generator: the same commands in every run. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

const octet = (random: () => number): number => Math.floor(random() * 4);
const addressIn = (random: () => number): string => `10.${octet(random)}.${octet(random)}.${1 + octet(random)}`;

function randomCommands(random: () => number): readonly string[] {
  const table = () => pick(random, ['main', 'main', '100', '101']);
  const network = () =>
    pick(random, [`10.${octet(random)}.0.0/16`, `10.${octet(random)}.${octet(random)}.0/24`, addressIn(random), 'default']);
  const way = () => pick(random, [...devices.map(dev => `dev ${dev}`), 'nexthop dev p0 nexthop dev p1', 'via 192.0.2.9 dev p0 metric 50']);
  const routes = Array.from({length: 30}, () =>
    random() < 0.2
      ? `route replace ${pick(random, ['unreachable', 'blackhole', 'throw', 'prohibit'])} ${network()} table ${table()}`
      : `route replace ${network()} table ${table()} ${way()}`,
  );
  const condition = () =>
    pick(random, [
      `from ${addressIn(random)}/24`,
      `not from ${addressIn(random)}/16`,
      `to ${addressIn(random)}/16`,
      'fwmark 0x80/0xff',
      'iif p0',
      'iif lo',
      'from all',
    ]);
  const action = () => pick(random, ['lookup 100', 'lookup 101', 'lookup main suppress_prefixlength 16', 'unreachable', 'goto 32766']);
  const rules = Array.from({length: 8}, (_, index) => `rule add ${condition()} ${action()} pref ${1000 + index}`);
  return [...routes, ...rules];
}

describeWith(['root', 'netns', 'nsenter', 'ip', 'conntrack', 'sysctl'], 'what the kernel holds beside rules', () => {
  let node: Namespace;

  beforeAll(async () => {
    node = await Namespace.open();
    const ports = ['p0', 'p1', 'p2'].flatMap(name => [
      `link add ${name} type veth peer name ${name}-far`,
      `link set ${name}-far up`,
      `link set ${name} up`,
    ]);
    node.ip(
      [
        'link set lo up',
        ...ports,
        'link add cni0 type bridge',
        'link set cni0 up',
        'link set p2-far master cni0',
        'address add 192.0.2.2/24 dev p0',
        'address add 10.9.0.1/24 dev cni0',
        'address add fd00:9::1/64 dev cni0 nodad',
      ].join('\n'),
    );
    // The kernel answers for packets that arrive only if it would forward them, and refuses sources that it has no way back to.
    const settings = ['accept_local=1', 'send_redirects=0', 'rp_filter=0'];
    const ofDevices = ['all', ...devices].flatMap(name => settings.map(setting => `net.ipv4.conf.${name}.${setting}`));
    node.run('sysctl', ['-q', '-w', 'net.ipv4.ip_forward=1', ...ofDevices]);
  });

  afterAll(() => node?.[Symbol.asyncDispose]());

  test('is read with the commands of a node', async () => {
    const facts = await factsOf(node);
    expect(sysctlNumber(facts, 'net.ipv4.ip_forward')).toBe(1);
    expect(sysctlNumber(facts, 'net.ipv4.conf.p0.rp_filter')).toBe(0);
    expect(sysctlNumber(facts, 'net.ipv6.conf.all.forwarding')).toBe(0);
    expect(sysctlNumber(facts, 'net.netfilter.nf_conntrack_max')).toBeGreaterThan(0);
    expect(facts.links?.find(({name}) => name === 'p2-far')).toMatchObject({kind: 'veth', master: 'cni0', hairpin: false, isUp: true});
    expect(facts.connections).toEqual({insertFailed: 0, dropped: 0, earlyDropped: 0});
    expect(facts.policyRules.IPv6).toHaveLength(2);
    const destination = parseAddress('fd00:9::7');
    expect(destination === null ? null : routeOf(facts, destination)).toMatchObject({kind: 'unicast', dev: 'cni0'});
  });

  describe.each(Array.from({length: 12}, (_, seed) => seed + 1))('routes and rules of seed %i', seed => {
    test('lead where the kernel sends packets', async () => {
      const random = generator(seed);
      node.run('ip', ['rule', 'flush']);
      for (const table of ['main', '100', '101']) node.run('sh', ['-c', `ip route flush table ${table} 2>/dev/null; true`]);
      node.ip(['rule add pref 32766 lookup main', 'rule add pref 32767 lookup default', 'route add 192.0.2.0/24 dev p0'].join('\n'));
      // A route through a gateway that is not reachable is refused.
      for (const command of randomCommands(random)) node.run('sh', ['-c', `ip ${command} 2>/dev/null; true`]);
      const facts = await factsOf(node);
      const answers = Array.from({length: 60}, () => {
        const [to, from] = [addressIn(random), addressIn(random)];
        const mark = pick(random, [0, 0x80, 0x4080]);
        const iif = pick(random, ['p0', 'p1']);
        const [destination, source] = [parseAddress(to), parseAddress(from)];
        if (destination === null || source === null) throw new Error(to);
        const found = routeOf(facts, destination, {source, mark, iif});
        const asked = `${to} from ${from} iif ${iif} mark ${mark}`;
        return {
          asked,
          found: found.kind === 'unicast' ? found.dev : found.kind,
          kernel: kernelRoute(node, asked),
        };
      });
      const isOneOf = (found: string, kernel: string): boolean =>
        found === kernel || (found === 'unknown' && (kernel === 'p0' || kernel === 'p1'));
      expect(answers.filter(({found, kernel}) => !isOneOf(found, kernel))).toEqual([]);
      expect(answers.filter(({found}) => found !== 'unknown').length).toBeGreaterThan(15);
    });
  });
});

/** The interface, `local`, or `unreachable`. */
function kernelRoute(node: Namespace, asked: string): string {
  try {
    const [route] = JSON.parse(node.run('ip', ['-j', 'route', 'get', ...asked.split(' ')])) as readonly {
      readonly type?: string;
      readonly dev: string;
    }[];
    return route?.type === 'local' ? 'local' : (route?.dev ?? 'unreachable');
  } catch {
    return 'unreachable';
  }
}
