/** The smallest text for each way in which pasted rules were once read wrongly. */
import {describe, expect, test} from 'vitest';
import {parseDumps} from '../../src/parse/iptables/iptables-save.ts';
import {packetRenderers} from '../../src/render/table/packet-report.ts';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {answerText, askText, nodeAddresses, type Question} from './ask.ts';
import {snapshotOfText} from './trace-text.ts';

const head = 'target     prot opt source               destination';
const web: Question = {source: '10.244.11.4', destination: '10.96.0.1', port: '80'};

const nat = [
  '*nat',
  ':PREROUTING ACCEPT [0:0]',
  ':OUTPUT ACCEPT [0:0]',
  ':POSTROUTING ACCEPT [0:0]',
  ':KUBE-SERVICES - [0:0]',
  '-A PREROUTING -j KUBE-SERVICES',
  '-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.1.5:8080',
  'COMMIT',
  '',
].join('\n');

const filter = ['*filter', ':INPUT ACCEPT [0:0]', ':FORWARD ACCEPT [0:0]', ':OUTPUT ACCEPT [0:0]', 'COMMIT', ''].join('\n');

async function answer(text: string, question: Question = web): Promise<string> {
  return (await askText(text, [question])).map(answerText).join();
}

const tablesOf = (text: string) =>
  parseDumps(text).flatMap(({tables}) =>
    [...tables.values()].flatMap(table => [...table.chains.values()].map(({name}) => `${table.name}/${name}`)),
  );

describe('the outcome of a packet', () => {
  const forward = (rules: string) => `-P INPUT ACCEPT\n-P FORWARD DROP\n-P OUTPUT ACCEPT\n-A FORWARD -s 10.9.0.0/16 -j ACCEPT\n${rules}`;

  test('is a policy that drops it, where the text shows FORWARD alone', async () => {
    expect(await answer(forward(''))).toBe('100.0% drop null');
  });

  test.each([
    ['an accept', '-A FORWARD -s 10.244.0.0/16 -j ACCEPT\n'],
    ['a match on the destination, which table nat changes', '-A FORWARD -d 10.244.0.0/16 -j ACCEPT\n'],
    ['a jump to a chain that is not shown', '-A FORWARD -j KUBE-FORWARD\n'],
  ])('is undetermined by FORWARD alone with %s', async (_, rules) => {
    expect(await answer(forward(rules))).toMatch(/^100\.0% undecided/);
  });

  test('is determined by both tables', async () => {
    expect(await answer(nat + filter)).toBe('100.0% accept 10.244.1.5:8080');
  });

  test.each([
    ['table nat', filter],
    ['table filter', nat],
    ['the rules that dots stand for', `${nat.replace('-A KUBE-SERVICES', '...\n-A KUBE-SERVICES')}${filter}`],
    ['what grep left out', `$ iptables-save | grep KUBE\n${nat}${filter}`],
    ['a chain that a rule jumps to', `${nat.replace('-j DNAT --to-destination 10.244.1.5:8080', '-j KUBE-SVC-AAAAAAAAAAAAAAAA')}${filter}`],
  ])('is undetermined without %s', async (_, text) => {
    expect(await answer(text)).toBe('100.0% undecided');
  });
});

describe('the first line of an undetermined packet', () => {
  const lineOf = (text: string) =>
    packetRenderers
      .tree(
        askNodes({...web, 'local-address': nodeAddresses}, snapshotOfText(text), () => true),
        {color: false, width: Infinity, quiet: false, verbose: false, failOn: 'error'},
      )
      .split('\n', 1)[0];

  test.each([
    [
      'a chain that is not shown',
      '-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n',
      'dropped unless other rules of filter/FORWARD, filter/DOCKER-USER decide otherwise',
    ],
    ['a chain that nothing calls', '-N MY-FILTER\n-A MY-FILTER -d 10.96.0.1/32 -j DROP\n', 'dropped if filter/MY-FILTER is called'],
    ['rules behind a DNAT', nat, 'sent to 10.244.1.5:8080 unless rules that are not shown decide otherwise'],
  ])('says the condition: %s', (_, text, condition) => {
    expect(lineOf(text)).toMatch(new RegExp(`undetermined: ${condition}$`));
  });

  test('names what is missing of rules of iptables that nft printed', () => {
    const printed = (more: string) =>
      `table ip nat {\n\tchain PREROUTING {\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\t\tcounter jump KUBE-SERVICES\n\t}\n\tchain KUBE-SERVICES {\n\t\tip daddr 10.96.0.1 tcp dport 80 counter dnat to 10.244.1.5:8080\n\t}\n${more}}\n`;
    const [answer] = askNodes({...web, 'local-address': nodeAddresses}, snapshotOfText(printed('')), () => true);
    expect(answer?.outcomes.map(({reason}) => reason)).toEqual([
      'this text does not show chain POSTROUTING of table ip nat, chain OUTPUT of table ip nat, table ip filter',
    ]);
  });
});

describe('an undetermined packet', () => {
  const two = nat
    .replace(':KUBE-SERVICES', ':KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-SERVICES')
    .replace('-j DNAT --to-destination 10.244.1.5:8080', '-j KUBE-SVC-AAAAAAAAAAAAAAAA')
    .replace(
      'COMMIT',
      [
        '-A KUBE-SVC-AAAAAAAAAAAAAAAA -m statistic --mode random --probability 0.50000000000 -p tcp -j DNAT --to-destination 10.244.1.5:8080',
        '-A KUBE-SVC-AAAAAAAAAAAAAAAA -p tcp -j DNAT --to-destination 10.244.1.6:8080',
        'COMMIT',
      ].join('\n'),
    );

  test('shows in each branch the endpoint that its DNAT leads to', () => {
    const answers = askNodes({...web, 'local-address': nodeAddresses}, snapshotOfText(two), () => true);
    expect(answers[0]?.outcomes.map(({verdict, rewrittenTo, probability}) => [verdict, rewrittenTo, probability])).toEqual([
      ['undecided', '10.244.1.5:8080', 0.5],
      ['undecided', '10.244.1.6:8080', 0.5],
    ]);
    const text = packetRenderers.tree(answers, {color: false, width: 120, quiet: false, verbose: false, failOn: 'error', unixTime: 0});
    expect(text.match(/undetermined after DNAT to \S+(?=: )/g)).toEqual([
      'undetermined after DNAT to 10.244.1.5:8080',
      'undetermined after DNAT to 10.244.1.6:8080',
    ]);
    // The senders it holds for leave out both endpoints: each would answer itself.
    const [branches = ''] = text.split(/^ *holds for /m);
    for (const branch of branches.split(/^[├└]─/m).slice(1)) expect(new Set(branch.match(/10\.244\.1\.\d/g)).size).toBe(1);
    expect(text).not.toContain('not rewritten');
  });

  test('may be an IPv6 packet', async () => {
    const six = two.replace('10.96.0.1/32', 'fd00:10::41').replaceAll(/10\.244\.1\.(\d):8080/g, '[fd00:244::$1]:8080');
    const question = {source: 'fd00:244::9', destination: 'fd00:10::41', port: '80'};
    const [answer] = askNodes({...question, 'local-address': nodeAddresses}, snapshotOfText(six), () => true);
    expect(answer?.outcomes.map(({rewrittenTo}) => rewrittenTo)).toEqual(['[fd00:244::5]:8080', '[fd00:244::6]:8080']);
  });
});

describe('a listing keeps', () => {
  test('every base chain, whatever comes after it', async () => {
    const listing = [
      ...['Chain INPUT (policy ACCEPT)', head, 'ACCEPT     all  --  0.0.0.0/0            0.0.0.0/0', ''],
      ...['Chain FORWARD (policy DROP)', head, ''],
      ...['Chain OUTPUT (policy ACCEPT)', head, ''],
    ].join('\n');
    expect(tablesOf(listing)).toEqual(['filter/INPUT', 'filter/FORWARD', 'filter/OUTPUT']);
    expect(await answer(`${nat}${listing}`)).toBe('100.0% drop 10.244.1.5:8080');
  });

  test('rules whose destination is anywhere, or a host name, or has the name of a port', async () => {
    const listing = (destination: string, port: string) =>
      [
        ...['Chain INPUT (policy ACCEPT)', head, '', 'Chain FORWARD (policy ACCEPT)', head],
        ...[`KUBE-FORWARD  all  --  anywhere             anywhere`, '', 'Chain OUTPUT (policy ACCEPT)', head, ''],
        ...['Chain KUBE-FORWARD (1 references)', head, `DROP       tcp  --  anywhere             ${destination}  tcp dpt:${port}`, ''],
      ].join('\n');
    expect(await answer(nat + listing('anywhere', 'http-alt'))).toBe('100.0% drop 10.244.1.5:8080');
    expect(await answer(nat + listing('anywhere', 'https'))).toBe('100.0% accept 10.244.1.5:8080');
    expect(await answer(nat + listing('web-0.shop.svc', 'http-alt'))).toBe('100.0% undecided');
    expect(await answer(nat + listing('anywhere', 'kitchen'))).toBe('100.0% undecided');
  });
});

describe('a text', () => {
  test('of several commands is one excerpt', () => {
    const text = [
      '$ iptables -t nat -S KUBE-SVC-AAAAAAAAAAAAAAAA',
      ...['-N KUBE-SVC-AAAAAAAAAAAAAAAA', '-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-BBBBBBBBBBBBBBBB'],
      'root@node:~# iptables -t nat -S KUBE-SEP-BBBBBBBBBBBBBBBB',
      ...['-N KUBE-SEP-BBBBBBBBBBBBBBBB', '-A KUBE-SEP-BBBBBBBBBBBBBBBB -p tcp -m tcp -j DNAT --to-destination 10.244.1.5:8080', ''],
    ].join('\n');
    expect(tablesOf(text)).toEqual(['nat/KUBE-SVC-AAAAAAAAAAAAAAAA', 'nat/KUBE-SEP-BBBBBBBBBBBBBBBB']);
    expect(parseDumps(text)).toHaveLength(1);
  });

  test('starts a table with an asterisk and its name alone', () => {
    expect(tablesOf(`* this is what I see\n*and this*\n${nat}`)).toContain('nat/KUBE-SERVICES');
    expect(parseDumps(`* this is what I see\n${nat}`)[0]?.strays).toEqual([{line: 1, text: '* this is what I see'}]);
  });

  test('without tables has REJECT rules in table filter', () => {
    const rules = ['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES'].map(
      chain => `-A ${chain} -d 10.96.0.9/32 -p tcp -m comment --comment "shop/empty:http has no endpoints" -m tcp --dport 80 -j REJECT`,
    );
    expect(tablesOf(`${rules.join('\n')}\n-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC-AAAAAAAAAAAAAAAA\n`).toSorted()).toEqual([
      'filter/KUBE-EXTERNAL-SERVICES',
      'filter/KUBE-SERVICES',
      'nat/KUBE-SERVICES',
    ]);
  });

  test('is IPv6 if its addresses are, even without a prefix', async () => {
    const six = (nat + filter).replace('10.96.0.1/32', 'fd00:10::41').replace('10.244.1.5:8080', '[fd00:244::5]:8080');
    expect(parseDumps(six)[0]?.family).toBe('IPv6');
    expect(await answer(six, {source: 'fd00:244::9', destination: 'fd00:10::41', port: '80'})).toBe('100.0% accept [fd00:244::5]:8080');
  });

  test('keeps the second half of a rule that is broken inside its comment', () => {
    const text = '-A KUBE-SERVICES -d 10.96.0.1/32 -m comment --comment "shop/web:http\ncluster IP" -j KUBE-SVC-AAAAAAAAAAAAAAAA\n';
    expect(parseDumps(text)[0]?.chain('nat', 'KUBE-SERVICES')?.text()).toContain('"shop/web:http cluster IP" -j KUBE-SVC-AAAAAAAAAAAAAAAA');
  });

  test('whose table has no COMMIT is truncated there, whatever follows', () => {
    const header = '# Generated by iptables-save v1.8.9';
    const [ruleset, ...others] = parseDumps(`:OUTPUT ACCEPT [0:0]\n${header}\n${filter.replace('COMMIT\n', '')}${header}\n${nat}`);
    expect(others).toEqual([]);
    expect(ruleset?.truncation).toEqual({table: 'filter', line: 6});
    expect([...(ruleset?.tables.values() ?? [])].map(({name, complete}) => [name, complete])).toEqual([
      ['nat', true],
      ['filter', false],
    ]);
  });

  test('that repeats a base chain is one ruleset, and one with two whole tables is two', () => {
    const again = 'Chain PREROUTING (policy ACCEPT)\ntarget     prot opt source               destination\n';
    expect(parseDumps(`${nat}${filter}${again}`)).toHaveLength(1);
    expect(parseDumps(`:INPUT ACCEPT [0:0]\n${nat}${filter}`)).toHaveLength(1);
    expect(parseDumps(`$ iptables-save\n${nat}${filter}$ iptables-save\n${nat}${filter}`)).toHaveLength(2);
  });
});
