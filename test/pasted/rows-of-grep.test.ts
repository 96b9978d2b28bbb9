/** Rows of `iptables -L` whose heading `grep` left out: the command above may name their chain. */
import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {parseListingCommand} from '../../src/parse/iptables/pasted-text.ts';
import {noDump} from '../../src/parse/pasted/split-text.ts';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {said, snapshotOfText} from './trace-text.ts';

const reject = 'REJECT     all  --  *      *       0.0.0.0/0            0.0.0.0/0            reject-with icmp-host-prohibited';

function answerTo(text: string): string {
  const sent = {source: '10.244.0.3', destination: '10.244.1.5', port: '80', 'local-address': ['192.0.2.1']};
  return askNodes(sent, snapshotOfText(text))
    .flatMap(({outcomes}) => outcomes.map(({condition = '', verdict}) => `${verdict} ${condition}`))
    .join();
}

describe('a command that names the chain tells the chain of the rows', () => {
  test.each([
    ['with counters', `$ sudo iptables -nvL FORWARD | grep REJECT\n    7   420 ${reject}\n`],
    ['with numbers', `# iptables -L FORWARD -n -v --line-numbers | grep -i reject\n12       7   420 ${reject}\n`],
    [
      'after a warning',
      `# iptables -vnL FORWARD | grep REJECT\n# Warning: iptables-legacy tables present, use iptables-legacy to see them\n    7   420 ${reject}\n`,
    ],
  ])('%s', (_, text) => {
    expect(answerTo(text)).toBe('undecided refused unless other rules of filter/FORWARD decides otherwise');
  });

  test('the rows that follow a heading are those of the heading', () => {
    const text = `$ sudo iptables -vnL FORWARD\nChain FORWARD (policy DROP 0 packets, 0 bytes)\n pkts bytes target     prot opt in     out     source               destination\n    7   420 ${reject}\n`;
    expect(answerTo(text)).toMatch(/^reject/);
  });

  test('a command that lists all chains does not', () => {
    expect(noDump(Buffer.from(`$ sudo iptables -nvL | grep REJECT\n    7   420 ${reject}\n`))).toMatch(
      /without the heading .* as on line 2/,
    );
  });
});

test.each([
  ['$ sudo iptables -t nat -S | grep web', {table: 'nat', filtered: true}],
  ['sudo ip6tables-save', {table: null, filtered: false}],
  ['➜  ~ sudo iptables -S FORWARD', {table: 'filter', chain: 'FORWARD'}],
])('the command is read: %s', (line, expected) => {
  expect(parseListingCommand(line)).toMatchObject(expected);
});

test.each([
  '| ',
  'node-a | ',
  'node-a: ',
  'root@node-a:~# ',
  '[root@node-a ~]$ ',
  '2026-03-01T10:00:01.120Z ',
  '[10:00:01] ',
  '[ 14.414142] : ',
])('rules are read behind "%s"', mark => {
  const rule = '-A KUBE-SERVICES -d 10.96.1.1/32 -p tcp -m comment --comment "shop/web:http has no endpoints" -m tcp --dport 80 -j REJECT';
  expect(said(`${mark}${rule}\n${mark}${rule.replaceAll('web', 'api')}\n`)).toMatch(/^each of 2 Service ports refuses connections/);
  const listing = [
    'Chain FORWARD (policy DROP)',
    'target     prot opt source     destination',
    'KUBE-FORWARD  all  --  anywhere  anywhere',
  ];
  expect(said(listing.map(line => `${mark}${line}\n`).join(''))).toMatch(/^the policy of filter\/FORWARD is DROP/);
});

test('a row of a Service without endpoints tells its chain, also where the name of its port is not known', () => {
  for (const port of ['http', 'no-such-name'])
    expect(
      said(
        `# iptables -L | grep 192.0.2.7\nDROP  tcp  --  anywhere  192.0.2.7  /* shop/web:http has no local endpoints */ tcp dpt:${port}\n`,
      ),
    ).toMatch(/^shop\/web:http \(.*\) is dropped: for kube-proxy it has no endpoint on this node/);
  expect(noDump(Buffer.from('DROP  tcp  --  anywhere  192.0.2.7  /* shop/web is closed */ tcp dpt:http\n'))).toContain(
    'without the heading',
  );
});

test('an unknown name of a port is not a port that iptables does not show', () => {
  const row =
    'REJECT  tcp  --  anywhere  10.96.1.1  /* shop/web has no endpoints */ tcp dpt:no-such-name reject-with icmp-port-unreachable\n';
  expect(diagnose(snapshotOfText(row), {toolVersion: '0.0.0'}).findings.map(({code}) => code)).toEqual(['ST901']);
});

test('where no row has a chain, those that send one port to different places are named', () => {
  const rows = ['10.0.4.9', '10.0.7.21'].map(
    to => `DNAT       tcp  --  anywhere             anywhere             tcp dpt:8126 to:${to}:8126\n`,
  );
  const text = `$ iptables -tnat -L | grep 8126\n${rows.join('')}`;
  expect(noDump(Buffer.from(text))).toContain(
    'Port 8126/tcp is sent to 10.0.4.9:8126 (line 2), 10.0.7.21:8126 (line 3): of rows in one chain the first wins, and iptables-save | grep 8126 shows',
  );
  expect(noDump(Buffer.from(text.replace('10.0.7.21', '10.0.4.9')))).not.toContain('is sent to');
});
