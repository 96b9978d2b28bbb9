import {expect, test} from 'vitest';
import {withRule} from '../../editable-dump.ts';
import {scenario} from '../../scenario.ts';

async function found(table: string, rule: string): Promise<readonly string[]> {
  const given = await scenario('healthy/1.36-iptables');
  const before = given.rules('node-a').toString();
  const whole = before.includes(`*${table}\n`) ? before : `${before}*${table}\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n`;
  // The node's own addresses are all known.
  const eth0 = {ifname: 'eth0', addr_info: [{local: '172.18.0.11', prefixlen: 16}]};
  given.file('node-a', 'addresses.json', JSON.stringify([{ifname: 'lo'}, eth0]));
  const messages = (): readonly string[] =>
    given.findings({nodes: node => node === 'node-a'}).map(({code, severity, message}) => `${code} ${severity} ${message}`);
  const healthy = messages();
  given.file('node-a', 'iptables-save', withRule(table, rule)(whole));
  return messages().filter(message => !healthy.includes(message));
}

test('what other nodes send to an endpoint untracked gets no answer, because the reply is invalid to connection tracking', async () => {
  expect(await found('raw', '-A PREROUTING -p tcp -m tcp --dport 8080 -j CT --notrack')).toContainEqual(
    expect.stringMatching(
      /^ST402 error .*replies to packets from a pod of another node sent on by other nodes to the endpoint .* dropped by a third-party rule/,
    ),
  );
});

test('answers that a rule of network policies leaves untracked are lost, which no policy asks for', async () => {
  const rule = '-A OUTPUT -s 172.18.0.11/32 -p tcp -m tcp --sport 9100 -j CT --notrack';
  const chains = rule.replace('-A OUTPUT', '-A cali-OUTPUT');
  expect(await found('raw', `:cali-OUTPUT - [0:0]\n-A OUTPUT -j cali-OUTPUT\n${chains}`)).toContainEqual(
    expect.stringMatching(/^ST402 error .*replies to packets from .* connection tracking does not recognize/),
  );
});

test('what clients outside lose of a cluster IP alone, which the API promises to nobody outside, is an info', async () => {
  const untracked = '-A OUTPUT ! -d 10.0.0.0/8 -p tcp -m tcp --sport 9100 -j CT --notrack';
  const messages = await found('raw', `-A OUTPUT -d 172.18.0.0/16 -j ACCEPT\n${untracked}`);
  expect(messages).toContainEqual(expect.stringMatching(/^ST402 info .*replies to packets from outside the cluster .*to its cluster IP/));
  expect(messages.filter(message => !message.includes(' info '))).toEqual([]);
});

test('Services whose replies alone a rule refuses are named beside those whose packets it refuses', async () => {
  const messages = await found('filter', '-A FORWARD -s 10.244.11.0/24 -d 172.18.0.0/16 -j REJECT');
  expect(messages).toEqual([
    expect.stringMatching(
      /^ST303 error default\/kubernetes:https: packets from a pod of this node to .* are sent to an endpoint and then refused/,
    ),
    expect.stringMatching(
      /^ST303 error infra\/node-exporter:http: packets from a pod of this node to .* are sent to an endpoint and then refused/,
    ),
    expect.stringMatching(
      /^ST402 error replies to packets from .*node-b, node-c\) .* are refused by a third-party rule \(26 Service ports/,
    ),
  ]);
});

test('clients that their interface puts in a zone of their own get no answer, and nobody else is told apart', async () => {
  expect(await found('raw', '-A PREROUTING -i eth0 -j CT --zone 7')).toEqual([
    expect.stringMatching(/^ST402 error .*replies to packets from .* connection tracking does not recognize/),
  ]);
});

test('what other nodes send on comes from the ports that masquerading draws, not from those of clients alone', async () => {
  expect(await found('filter', '-A INPUT -p tcp -m tcp --sport 20000:30000 -j DROP')).toContainEqual(
    expect.stringMatching(/^ST402 error .*from another node, source port 20000-30000 sent on by other nodes to its endpoint/),
  );
  expect(await found('filter', '-A INPUT -p tcp -m tcp --sport 3300:3310 -j DROP')).not.toContainEqual(expect.stringMatching(/ error /));
});

test('an endpoint that loses its own connections loses those to the other endpoints of its Service too', async () => {
  expect(await found('raw', '-A PREROUTING -s 10.244.11.6/32 -j DROP')).toEqual([
    expect.stringMatching(/^ST402 error packets from 10\.244\.11\.6 \(pod shop\/solo-1\) .*31 Service ports/),
  ]);
});

test.each(['SNAT --to-source 198.18.0.1-198.18.0.9', 'NETMAP --to 198.18.0.0/24'])(
  'new source addresses of which the node has none get no answer: %s',
  async target => {
    expect(await found('nat', `-A POSTROUTING -s 10.244.11.0/24 -d 10.244.12.0/24 -j ${target}`)).toContainEqual(
      expect.stringMatching(/^ST302 error .*get the source address 198\.18\.0\.\d+, which the node does not have/),
    );
  },
);

test('what the node itself gets is answered whatever its new source address', async () => {
  expect(await found('nat', '-A POSTROUTING -o lo -p tcp -m tcp --dport 9100 -j SNAT --to-source 198.18.0.1')).toEqual([]);
});

test('a range of new source addresses of which the node has one loses the replies to the others', async () => {
  const range = (last: number) => found('nat', `-A POSTROUTING -s 10.244.11.0/24 -j SNAT --to-source 172.18.0.11-172.18.0.${last}`);
  expect(await range(12)).toContainEqual(
    expect.stringMatching(/^ST302 error .*get the source address 172\.18\.0\.12, which the node does not have/),
  );
  expect(await range(11)).not.toContainEqual(expect.stringMatching(/which the node does not have/));
});

test('a node port without endpoints that a rule accepts first is refused all the same: nothing listens there', async () => {
  expect(await found('filter', '-A INPUT -s 172.18.0.12/32 -j ACCEPT')).toEqual([]);
});

test('a packet that is left no hop is undecided where no route shows what is behind the next one', async () => {
  expect(await found('mangle', '-A FORWARD -p tcp -j TTL --ttl-set 1')).toContainEqual(
    expect.stringMatching(/^ST403 warning .*undetermined: .*no hop is left for the packet, and what is behind the next one is not known/),
  );
});

test('a rule that translates what clients outside send to a cluster IP alone is an info', async () => {
  const messages = await found('nat', '-A PREROUTING ! -s 10.0.0.0/8 -d 10.96.0.0/12 -p tcp -j DNAT --to-destination 192.0.2.9:80');
  expect(messages.filter(message => / to (?:its|the) cluster IP /.test(message))).not.toEqual([]);
  expect(messages.filter(message => !message.includes(' info '))).toEqual([]);
});
