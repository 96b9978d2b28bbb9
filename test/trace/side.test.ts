import {describe, expect, test} from 'vitest';
import {parseNftDump} from '../../src/parse/nftables/nft-dump.ts';
import {parseNftJson} from '../../src/parse/nftables/nft-json.ts';
import {parseInterval} from '../../src/parse/nftables/address-list.ts';
import {type Side, walkConnection, walkSide} from '../../src/trace/side.ts';
import {inAnyCase} from '../../src/trace/walked-packet.ts';
import {environment, packetOf, ruleset} from './send.ts';

const dnat = '-A PREROUTING -d 10.96.0.7/32 -j DNAT --to-destination 10.244.1.5:8080';
const masqueraded = `${dnat}\n-A POSTROUTING -j MASQUERADE`;
const fromPod = {from: '10.244.1.9', to: '10.96.0.7', port: 80};

function side(tables: Readonly<Record<string, string>>, policies: Readonly<Record<string, string>> = {}): Side {
  return {iptables: [ruleset({nat: dnat, ...tables}, policies)], nft: null, environment: environment()};
}

/** Which packet of a connection is lost: `reply DROP`; `served` if none is. */
function connection(given: Side, sent = fromPod): string {
  const pods = parseInterval('10.244.1.0/24');
  const [outcome] = walkConnection(
    given,
    {...packetOf(sent), sourcePort: 40_000},
    {pods: pods === null ? [] : [[pods.low, pods.high]], signature: text => text},
  );
  if (outcome === undefined || outcome.verdict !== 'accept') return `first ${outcome?.verdict.toUpperCase()}`;
  return outcome.lost === undefined ? 'served' : `${outcome.lost.packet} ${outcome.lost.outcome.verdict.toUpperCase()}`;
}

describe('a connection is served if its first packet, the reply and the next packet arrive', () => {
  test.each<readonly [string, Readonly<Record<string, string>>, string]>([
    ['no rule is in the way', {}, 'served'],
    ['the pod may not answer', {filter: '-A FORWARD -s 10.244.1.5/32 -j DROP'}, 'reply DROP'],
    ['only new connections are accepted', {filter: '-A FORWARD -m conntrack --ctstate NEW -j ACCEPT\n-A FORWARD -j DROP'}, 'reply DROP'],
    [
      'established packets of the first direction are dropped',
      {filter: '-A FORWARD -m conntrack --ctstate ESTABLISHED --ctdir ORIGINAL -j DROP'},
      'next DROP',
    ],
    [
      'established ones are accepted',
      {filter: '-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n-A FORWARD -s 10.244.1.5/32 -j DROP'},
      'served',
    ],
    ['replies are not tracked', {raw: '-A PREROUTING -s 10.244.1.5/32 -j CT --notrack'}, 'reply DROP'],
    ['the endpoint is the client', {nat: '-A PREROUTING -d 10.96.0.7/32 -j DNAT --to-destination 10.244.1.9:8080'}, 'reply DROP'],
    [
      'the endpoint is the client, and masqueraded',
      {nat: '-A PREROUTING -d 10.96.0.7/32 -j DNAT --to-destination 10.244.1.9:8080\n-A POSTROUTING -j MASQUERADE'},
      'served',
    ],
    ['replies are looked up in another zone', {raw: '-A PREROUTING -s 10.244.1.5/32 -j CT --zone 7'}, 'reply DROP'],
    ['both directions are in the same zone', {raw: '-A PREROUTING -j CT --zone 7'}, 'served'],
    [
      'what the client sends once it has the reply makes the connection assured',
      {filter: '-A FORWARD -m conntrack --ctstate ESTABLISHED --ctdir ORIGINAL -m conntrack ! --ctstatus ASSURED -j DROP'},
      'served',
    ],
    ['a SYN with ACK is dropped', {filter: '-A FORWARD -p tcp -m tcp --tcp-flags SYN,ACK SYN,ACK -j DROP'}, 'reply DROP'],
    ['a rule about the Service itself does not see replies', {filter: '-A FORWARD -s 10.96.0.7/32 -j DROP'}, 'served'],
    [
      'replies of a masqueraded connection reach their client',
      {nat: masqueraded, filter: '-A FORWARD -s 10.244.1.5/32 -d 10.244.1.9/32 -j DROP'},
      'reply DROP',
    ],
    [
      'raw sees the address that masquerading gave',
      {nat: masqueraded, raw: '-A PREROUTING -s 10.244.1.5/32 -d 10.244.1.9/32 -j DROP'},
      'served',
    ],
  ])('%s', (_, tables, expected) => {
    expect(connection(side(tables))).toBe(expected);
  });

  test.each([
    ['lost in any case where a rule drops the replies', '-A FORWARD -s 10.244.1.5/32 -j DROP', 'accept reply DROP'],
    ['undecided where none does', '', 'undecided served'],
  ])('a first packet that a rule of unknown match may drop is %s', (_, rule, expected) => {
    const filter = `-A FORWARD -m bpf --bytecode "1,6 0 0 1" -j DROP\n${rule}`.trim();
    const endpoints = {pods: [[0x0af40100n, 0x0af401ffn]] as const, signature: (text: string) => text};
    const [outcome] = walkConnection(side({filter}), {...packetOf(fromPod), sourcePort: 40_000}, endpoints).map(one => inAnyCase(one));
    const {verdict, lost} = outcome ?? {};
    const later = lost === undefined ? 'served' : `${lost.packet} ${inAnyCase(lost.outcome).verdict.toUpperCase()}`;
    expect(`${verdict} ${later}`).toBe(expected);
  });

  test('an endpoint that is the client itself loses its own answers, whatever zone a rule gives the first direction', () => {
    const nat = '-A PREROUTING -d 10.96.0.7/32 -j DNAT --to-destination 10.244.1.9:8080';
    const given = side({nat, raw: '-A PREROUTING -j CT --zone-orig 7'});
    const [outcome] = walkConnection(given, packetOf(fromPod), {pods: [], signature: text => text});
    expect(outcome?.path.map(({table}) => table)).toEqual(['raw', 'nat']);
    expect(outcome?.lost?.outcome.path).toEqual([]);
  });

  test.each<readonly [string, string, string, readonly string[]]>([
    ['of all ports', 'MASQUERADE --random-fully', '--dport 30000:32767', ['0.957 served', '0.043 reply']],
    ['of the ports of the rule', 'MASQUERADE --to-ports 2000-2999', '--dport 2000:2499', ['0.5 reply', '0.5 served']],
    ['of SNAT', 'SNAT --to-source 192.168.1.10:2000-2999', '--dport 2000:2249', ['0.75 served', '0.25 reply']],
    ['in a set', 'MASQUERADE --random', '-m multiport --dports 30000:31000,32000:32767', ['0.973 served', '0.027 reply']],
    ['none of which the rule names', 'MASQUERADE --random-fully', '--dport 1:1023', ['1 served']],
    ['and single ports are no noticeable part of them', 'MASQUERADE --random-fully', '--dport 30080', ['1 served']],
    ['and where the kernel keeps that of the client', 'MASQUERADE', '--dport 30000:32767', ['1 served']],
  ])('a source port is drawn %s', (_, target, ports, expected) => {
    const nat = `${dnat}\n-A POSTROUTING -j ${target}`;
    const rule = `-A PREROUTING -s 10.244.1.5/32 -p tcp -m tcp ${ports} -j DROP`.replace('-m tcp -m', '-m');
    const outcomes = walkConnection(side({nat, mangle: rule}), packetOf(fromPod), {pods: [], signature: text => text});
    const texts = outcomes.map(({probability, lost}) => `${Math.round(probability * 1000) / 1000} ${lost?.packet ?? 'served'}`);
    expect(texts.toSorted()).toEqual(expected.toSorted());
    expect(outcomes.reduce((sum, {probability}) => sum + probability, 0)).toBeCloseTo(1);
  });

  test('a source port is drawn by nftables, and what is said of it in a set or a comparison holds for a part', () => {
    const dump = (rule: string): string => `table ip own {
  set ports {
    type inet_service
    flags interval
    elements = { 30000-31000 }
  }
  chain pre {
    type filter hook prerouting priority mangle; policy accept;
    ip saddr 10.244.1.5 ${rule} drop
  }
  chain post {
    type nat hook postrouting priority srcnat; policy accept;
    masquerade fully-random
  }
}`;
    const lost = (rule: string): number => {
      const given: Side = {...side({}), nft: parseNftDump(Buffer.from(dump(rule)))};
      const outcomes = walkConnection(given, packetOf(fromPod), {pods: [], signature: text => text});
      return outcomes.reduce((sum, {lost: later, probability}) => (later === undefined ? sum : sum + probability), 0);
    };
    expect(lost('tcp dport @ports')).toBeCloseTo(1001 / 64_512);
    expect(lost('tcp dport >= 60000')).toBeCloseTo(5536 / 64_512);
    expect(lost('tcp dport != 1024-65535')).toBe(0);
  });

  test('packets of the node to itself keep their connection on the loopback interface, and their replies need it', () => {
    const nat = '-A OUTPUT -d 10.96.0.7/32 -j DNAT --to-destination 192.168.1.10:8080';
    const own = {from: '192.168.1.10', to: '10.96.0.7', port: 80};
    const at = (raw: string): Side => ({...side({nat, raw}), environment: environment({notInterfaces: ['lo']})});
    expect(connection(at('-A PREROUTING -i lo -j CT --notrack'), own)).toBe('served');
    expect(connection(at('-A PREROUTING -i lo -j CT --notrack\n-A OUTPUT -o lo -j CT --notrack'), own)).toBe('reply DROP');
  });

  test('the next packet that the node sends to itself leaves by the interface of the endpoint', () => {
    const nat = '-A OUTPUT -d 192.168.1.10/32 -p tcp -m tcp --dport 30080 -j DNAT --to-destination 10.244.1.5:8080';
    const given = {...side({nat, mangle: '-A POSTROUTING -o lo -j DROP'}), environment: environment({notInterfaces: ['lo']})};
    expect(connection(given, {from: '192.168.1.10', to: '192.168.1.10', port: 30_080})).toBe('served');
  });

  const straight = {from: '10.244.2.9', to: '10.244.1.5', port: 8080};
  const invalid = '-A FORWARD -m conntrack --ctstate INVALID -j DROP';
  test.each<readonly [string, Readonly<Record<string, string>>, string]>([
    ['no rule is in the way', {filter: invalid}, 'served'],
    [
      'replies are not tracked, so that what follows is invalid',
      {raw: '-A PREROUTING -s 10.244.1.5/32 -j CT --notrack', filter: invalid},
      'next DROP',
    ],
    ['replies are not tracked and invalid packets pass', {raw: '-A PREROUTING -s 10.244.1.5/32 -j CT --notrack'}, 'served'],
    ['replies are invalid in another zone', {raw: '-A PREROUTING -s 10.244.1.5/32 -j CT --zone 7', filter: invalid}, 'reply DROP'],
    ['both directions are in the same zone', {raw: '-A PREROUTING -j CT --zone 7', filter: invalid}, 'served'],
  ])('a connection that another node translates: %s', (_, tables, expected) => {
    expect(connection(side(tables), straight)).toBe(expected);
  });

  test('the reply to a client outside of an endpoint on another node does not pass this one', () => {
    const remote = '-A PREROUTING -d 10.96.0.7/32 -j DNAT --to-destination 10.244.2.5:8080';
    const drop = side({nat: remote, filter: '-A FORWARD -s 10.244.2.5/32 -j DROP'});
    expect(connection(drop, {...fromPod, from: '203.0.113.9'})).toBe('served');
    expect(connection(drop)).toBe('reply DROP');
  });
});

describe('all rule systems are walked together', () => {
  const nft = (chain: string) => parseNftDump(Buffer.from(`table inet other {\n\tchain c {\n\t\t${chain}\n\t}\n}\n`));

  test('a policy of nftables beside iptables', () => {
    const dropping = nft('type filter hook forward priority 0; policy drop;');
    expect(connection({...side({}), nft: dropping})).toBe('first DROP');
  });

  test('replies in nftables', () => {
    const dropping = nft('type filter hook forward priority 0; policy accept;\n\t\tct state established ct direction reply drop');
    expect(connection({...side({}), nft: dropping})).toBe('reply DROP');
  });

  test('FORWARD of the other backend', () => {
    const legacy = ruleset({filter: '-A FORWARD -i docker0 -j ACCEPT'}, {FORWARD: 'DROP'});
    const base = side({});
    expect(connection({...base, iptables: [...base.iptables, legacy], environment: environment({notInterfaces: ['docker0']})})).toBe(
      'first DROP',
    );
  });

  const atDevice = (chain: string, devices = 'device "eth1"', hook = 'ingress') =>
    parseNftDump(
      Buffer.from(
        `table netdev n {\n\tchain c {\n\t\ttype filter hook ${hook}${devices && ` ${devices}`} priority filter; policy accept;\n\t\t${chain}\n\t}\n}\n`,
      ),
    );
  test.each<
    readonly [
      string,
      ReturnType<typeof atDevice>,
      Partial<typeof fromPod> & {readonly inInterface?: string; readonly outInterface?: string},
      string,
    ]
  >([
    ['that it arrives on', atDevice('tcp dport 80 drop'), {inInterface: 'eth1'}, 'first DROP'],
    ['one of two', atDevice('tcp dport 80 drop', 'devices = { eth0, eth1 }'), {inInterface: 'eth1'}, 'first DROP'],
    ['that it does not arrive on', atDevice('tcp dport 80 drop'), {inInterface: 'cni0'}, 'served'],
    ['before its destination is translated', atDevice('tcp dport 8080 drop'), {inInterface: 'eth1'}, 'served'],
    ['that it may arrive on', atDevice('tcp dport 80 drop'), {}, 'first UNDECIDED'],
    ['that it may arrive on, which accepts it', atDevice('tcp dport 81 drop'), {}, 'served'],
    ['that no dump shows', atDevice('tcp dport 80 drop', ''), {inInterface: 'eth1'}, 'first UNDECIDED'],
    ['that it may leave by', atDevice('tcp dport 8080 drop', 'device "eth1"', 'egress'), {}, 'first UNDECIDED'],
    ['that it does not leave by', atDevice('tcp dport 8080 drop', 'device "docker0"', 'egress'), {}, 'served'],
  ])('a chain of an interface %s', (_, rules, sent, expected) => {
    const given = {...side({}), nft: rules, environment: environment({notInterfaces: ['docker0']})};
    expect(connection(given, {...fromPod, ...sent})).toBe(expected);
  });

  test('a chain of an interface has the same interfaces in text and in JSON', () => {
    const chain = {family: 'netdev', table: 'n', name: 'c', handle: 1, type: 'filter', hook: 'ingress', prio: 0, policy: 'accept'};
    const ofJson = (dev?: string | string[]) =>
      parseNftJson(JSON.stringify({nftables: [{table: {family: 'netdev', name: 'n', handle: 1}}, {chain: {...chain, dev}}]})).tables.get(
        'netdev n',
      )?.baseChains[0]?.base;
    const ofText = (devices: string) => atDevice('accept', devices).tables.get('netdev n')?.baseChains[0]?.base;
    expect(ofJson('eth1')).toEqual(ofText('device "eth1"'));
    expect(ofJson(['eth0', 'eth1'])).toEqual(ofText('devices = { "eth0", "eth1" }'));
    expect(ofJson()).toEqual(ofText(''));
  });

  test('of two translations with one priority, that of the younger table comes first', () => {
    const other =
      'table ip other {\n\tchain c {\n\t\ttype nat hook prerouting priority -100; policy accept;\n\t\tip daddr 10.96.0.7 dnat to 10.244.1.66:80\n\t}\n}\n';
    const nat = 'table ip nat {\n\tchain PREROUTING {\n\t\ttype nat hook prerouting priority -100; policy accept;\n\t}\n}\n';
    const destination = (text: string): string | null | undefined =>
      walkSide({...side({}), nft: parseNftDump(Buffer.from(text))}, packetOf(fromPod))[0]?.destination;
    expect(destination(nat + other)).toBe('10.244.1.66:80');
    expect(destination(other + nat)).toBe('10.244.1.5:8080');
    // The list does not show when a table of iptables-legacy was made.
    expect(destination(other)).toBe('10.244.1.66:80');
  });
});
