/** Rules about the source of packets that a node sends to itself, as to a Service with an endpoint in its own network. */
import {describe, expect, test} from 'vitest';
import {scenario} from '../../scenario.ts';

const modes = {iptables: 'healthy/1.36-iptables', nftables: 'nftables/1.36'} as const;

/** What is found of the rules of one chain of nftables beside what the healthy node has, in short. */
async function found(mode: keyof typeof modes, hook: string, rule: string): Promise<readonly string[]> {
  const given = await scenario(modes[mode]);
  const messages = (): readonly string[] =>
    given
      .findings({nodes: node => node === 'node-a'})
      .map(({code, severity, message}) => `${code} ${severity} ${message.replace(/ \(\d+ Service ports?, such as .*/, '')}`);
  const before = messages();
  const own = mode === 'nftables' ? given.rules('node-a', 'nft.txt').toString() : '';
  given.file('node-a', 'nft.json', null);
  given.file('node-a', 'nft.txt', `${own}table inet firewall {\n\tchain c {\n\t\ttype filter hook ${hook}\n\t\t${rule}\n\t}\n}\n`);
  return messages().filter(message => !before.includes(message));
}

describe.each(['iptables', 'nftables'] as const)('beside kube-proxy in %s mode, a rule about a source address', mode => {
  test.each(['input priority 0; policy accept;', 'prerouting priority -150; policy accept;', 'postrouting priority 300; policy accept;'])(
    'leaves what the node sends to itself in no doubt at %s',
    async hook => {
      const news = await found(mode, hook, 'ip saddr 198.18.5.0/24 drop');
      expect(news).not.toContainEqual(expect.stringContaining('undetermined'));
      expect(news.filter(message => !message.includes(' info '))).toEqual([]);
    },
  );

  test('is reported where it drops what the node sends to an endpoint in its network', async () => {
    const news = await found(mode, 'input priority 0; policy accept;', 'iifname "lo" ip saddr 172.18.0.11 tcp dport 9100 drop');
    expect(news).toContainEqual(expect.stringMatching(/^ST402 error .*packets from the node itself to its cluster IP .* are dropped/));
  });

  test('sees the cluster IP as the source of the replies that the node sends to itself', async () => {
    const news = await found(mode, 'input priority 0; policy accept;', 'iifname "lo" ip saddr 10.96.0.0/16 drop');
    expect(news).toContainEqual(expect.stringMatching(/^ST402 error .*replies to packets from the node itself to its cluster IP/));
  });

  test('informs where it drops what clients outside send to a cluster IP, which the API promises to nobody outside', async () => {
    const pods = 'ip saddr 10.244.0.0/16 accept\n\t\tip daddr 10.244.0.0/16 accept';
    const news = await found(mode, 'forward priority 0; policy drop;', pods);
    const dropped = news.filter(message => /from outside the cluster to the cluster IP/.test(message));
    expect(dropped.length).toBeGreaterThan(0);
    expect(dropped.filter(message => !message.includes(' info '))).toEqual([]);
  });
});
