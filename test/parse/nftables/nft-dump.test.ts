import {describe, expect, test} from 'vitest';
import type {NftRuleset} from '../../../src/model/nft-ruleset.ts';
import {formatNftRuleset} from '../../rendered-nft-ruleset.ts';
import {parseNftJson} from '../../../src/parse/nftables/nft-json.ts';
import {parseNftDump} from '../../../src/parse/nftables/nft-dump.ts';
import {captureNames, readFixture, snapshotOf} from '../../fixtures.ts';

const many = 'nft/many-statements';

describe('the outputs of nft list and nft -j list are parsed to the same ruleset, and printed unchanged', () => {
  test.each(captureNames('nftables'))('%s', async name => {
    const {nodes} = await snapshotOf(name);
    expect(nodes).toHaveLength(3);
    for (const node of nodes) {
      const text = node.read('nft.txt') ?? Buffer.alloc(0);
      expectSame(text, node.read('nft.json') ?? Buffer.alloc(0));
      const ruleset = parseNftDump(text);
      expect([...ruleset.tables.keys()]).toEqual(['ip kube-proxy', 'ip6 kube-proxy']);
      expect(ruleset.strays).toEqual([]);
      expect(ruleset.truncation).toBeNull();
      expect(asListed(formatNftRuleset(ruleset))).toBe(asListed(text.toString('utf8')));
    }
  });

  test.each(captureNames('nftables'))('%s in JSON without blanks', async name => {
    for (const node of (await snapshotOf(name)).nodes) {
      const json = node.read('nft.json') ?? Buffer.alloc(0);
      const compact = JSON.stringify(JSON.parse(json.toString('utf8')));
      expect(content(parseNftJson(compact))).toEqual(content(parseNftJson(json)));
    }
  });

  test('with rules of all kinds', () => expectSame(readFixture(`${many}.txt`), readFixture(`${many}.json`)));

  test('with and without handles', () => expectSame(readFixture(`${many}-with-handles.txt`), readFixture(`${many}.json`)));
});

function expectSame(text: Buffer, json: Buffer): void {
  const [fromText, fromJson] = [parseNftDump(text), parseNftJson(json)];
  expect(fromText.ruleCount).toBeGreaterThan(50);
  expect(content(fromText)).toEqual(content(fromJson));
  expect(content(parseNftDump(formatNftRuleset(fromText)))).toEqual(content(fromText));
  expect(content(parseNftDump(formatNftRuleset(fromJson)))).toEqual(content(fromJson));
}

/** Everything that both forms contain. */
function content(ruleset: NftRuleset): object {
  return [...ruleset.tables.values()].map(table => ({
    id: table.id,
    chains: [...table.chains.values()].map(chain => ({name: chain.name, base: chain.base, complete: chain.complete, text: chain.text()})),
    sets: [...table.sets.values()].map(({dynamic: _, elements, ...set}) => ({...set, elements: [...elements.values()]})),
  }));
}

/** Lines as nft lists them: priorities as numbers, one blank between words, an element a line; comments of tables, sets and chains aside. */
function asListed(text: string): string {
  return text
    .replace(/^\s*comment "[^"]*"$/gm, '')
    .replace(/priority dstnat - 10;/g, 'priority -110;')
    .replace(/priority (dstnat|srcnat|filter)( - 10)?;/g, (_, word: string) => `priority ${{dstnat: -100, srcnat: 100, filter: 0}[word]};`)
    .replace(/\s+/g, ' ')
    .trim();
}

describe('a parsed ruleset has', () => {
  const listed = `
table ip kube-proxy { # handle 3
	comment "rules for kube-proxy"
	map service-ips { # handle 9
		type ipv4_addr . inet_proto . inet_service : verdict
		comment "ClusterIP, ExternalIP and LoadBalancer IP traffic"
		elements = { 10.96.0.1 . tcp . 443 : goto service-A-default/kubernetes/tcp/https,
			     10.96.1.14 . tcp . 80 comment "shop/a : b, c" : drop }
	}

	set affinity-E { # handle 10
		type ipv4_addr
		size 65535
		flags dynamic,timeout
		timeout 10m
		elements = { 10.9.9.1 expires 9m59s996ms, 10.9.9.2 timeout 1h expires 59m }
	}

	chain nat-output { # handle 1
		type nat hook output priority -100; policy accept;
		jump services # handle 4
	}

	chain services {
		ip daddr  @cluster-ips counter packets 5 bytes 300 meta mark set mark or 0x4000 comment "a { b" # handle 5
		ip saddr != { 203.0.113.0/28,
			      198.51.100.0/24 } drop
	}
}
`;
  const ruleset = parseNftDump(listed);
  const table = ruleset.tables.get('ip kube-proxy');

  test('the base chain and its priority', () => {
    expect(table?.baseChains.map(({name, base}) => [name, base])).toEqual([
      ['nat-output', {type: 'nat', hook: 'output', priority: -100, policy: 'accept'}],
    ]);
  });

  test('elements by key', () => {
    expect(table?.set('service-ips')?.elements.get('10.96.0.1 . tcp . 443')?.value).toBe('goto service-A-default/kubernetes/tcp/https');
    expect(table?.set('service-ips')?.elements.get('10.96.1.14 . tcp . 80')).toEqual({
      ...{key: '10.96.1.14 . tcp . 80', value: 'drop', comment: 'shop/a : b, c'},
    });
  });

  test('a set with elements that expire', () => {
    const set = table?.set('affinity-E');
    expect(set).toMatchObject({flags: ['timeout'], dynamic: true, timeout: 600, size: 65535, keyTypes: ['ipv4_addr'], valueTypes: null});
    expect([...(set?.elements.keys() ?? [])]).toEqual(['10.9.9.1', '10.9.9.2']);
  });

  test('rules in canonical spelling, with the line on which each starts', () => {
    expect(
      table
        ?.chain('services')
        ?.rules()
        .map(({text, body, line}) => ({text, body, line})),
    ).toEqual([
      {
        text: 'ip daddr @cluster-ips counter meta mark set meta mark | 0x00004000 comment "a { b"',
        body: 'ip daddr @cluster-ips counter meta mark set meta mark | 0x00004000',
        line: 25,
      },
      {
        text: 'ip saddr != { 198.51.100.0/24, 203.0.113.0/28 } drop',
        body: 'ip saddr != { 198.51.100.0/24, 203.0.113.0/28 } drop',
        line: 26,
      },
    ]);
  });
});

describe('a truncated text dump', () => {
  const whole = readFixture('captures/nftables/1.36/nodes/node-a/nft.txt').toString('utf8');

  test('in a chain: the table may contain more, and the chain too', () => {
    const at = whole.indexOf('ip daddr . meta l4proto . th dport vmap @service-ips');
    const truncated = parseNftDump(whole.slice(0, at + 20));
    expect(truncated.truncation).toEqual({table: 'ip kube-proxy', line: whole.slice(0, at).split('\n').length});
    const table = truncated.tables.get('ip kube-proxy');
    expect(table).toMatchObject({complete: false, declared: false});
    expect(table?.chain('services')).toMatchObject({complete: false, ruleCount: 1});
    expect(table?.chain('firewall-check')).toMatchObject({complete: true, ruleCount: 1});
  });

  test('in the elements of a map: complete ones are kept', () => {
    const at = whole.indexOf('10.96.1.24 . tcp . 5432');
    const map = parseNftDump(whole.slice(0, at + 25))
      .tables.get('ip kube-proxy')
      ?.set('service-ips');
    expect(map?.complete).toBe(false);
    expect(map?.elements.size).toBe(5);
  });

  test('between two tables does not show it', () => {
    expect(parseNftDump(whole.slice(0, whole.indexOf('table ip6'))).truncation).toBeNull();
  });
});

describe('a truncated JSON dump', () => {
  const whole = readFixture('captures/nftables/1.36/nodes/node-a/nft.json').toString('utf8');

  test('among the rules: all chains are known, but not the content of the last ones', () => {
    const at = whole.indexOf('"@service-ips"');
    const truncated = parseNftJson(whole.slice(0, at));
    const table = truncated.tables.get('ip kube-proxy');
    expect(truncated.truncation).toEqual({table: 'ip kube-proxy', line: 1});
    expect(table).toMatchObject({complete: false, declared: true});
    expect(table?.chain('services')).toMatchObject({complete: false, ruleCount: 1});
    expect(table?.chain('masquerading')).toMatchObject({complete: false, ruleCount: 0});
    expect(table?.chain('firewall-check')).toMatchObject({complete: true, ruleCount: 1});
    expect(table?.set('service-ips')?.complete).toBe(true);
  });

  test('among the maps: every part may contain more', () => {
    const table = parseNftJson(whole.slice(0, whole.indexOf('"10.96.1.24"'))).tables.get('ip kube-proxy');
    expect(table).toMatchObject({complete: false, declared: false});
    expect(table?.set('service-ips')).toBeUndefined();
  });
});

test('several JSON documents one after another are one ruleset', () => {
  const whole = readFixture(`${many}.json`).toString('utf8');
  const other = '{"nftables": [{"table": {"family": "ip", "name": "x", "handle": 1}}]}';
  const ruleset = parseNftJson(`${whole}\n${other}\n`);
  expect([...ruleset.tables.keys()]).toEqual(['inet fw', 'ip x']);
  expect(ruleset.toolVersion).toBe('1.0.6');
  expect(ruleset.truncation).toBeNull();
});

test('a table on one line, which nft does not print, is not left out silently, and what follows is read', () => {
  const oneLine = 'table inet fw { chain f { type filter hook forward priority 10; policy drop; } }';
  const ruleset = parseNftDump(`${oneLine}\ntable ip own {\n\tchain c {\n\t\taccept\n\t}\n}\n`);
  expect(ruleset.truncation).toEqual({table: 'inet fw', line: 1, by: oneLine});
  expect(ruleset.tables.get('inet fw')?.complete).toBe(false);
  expect(ruleset.tables.get('ip own')?.chains.get('c')?.ruleCount).toBe(1);
});

test('text that is not a dump is kept as unrecognized lines, and other JSON gives no table', () => {
  expect(parseNftDump('Error: No such file or directory\n').strays).toEqual([{line: 1, text: 'Error: No such file or directory'}]);
  expect(parseNftJson('{"nftables": [{"foo": 1}]}')).toMatchObject({strays: [{line: 1, text: '{"foo": 1}'}], ruleCount: 0});
  expect(parseNftJson('[]').tables.size).toBe(0);
});

test('the tables of iptables-nft are read as far as they are shown', () => {
  const [text] = parseNftDump(readFixture('nft/of-iptables.txt')).tables.get('ip nat')?.chain('PREROUTING')?.rules() ?? [];
  expect(text?.statements().map(({kind}) => kind)).toEqual(['match', 'passive', 'nat']);
  const [json] = parseNftJson(readFixture('nft/of-iptables.json')).tables.get('ip nat')?.chain('PREROUTING')?.rules() ?? [];
  expect(json?.statements().map(({kind}) => kind)).toEqual(['match', 'passive', 'passive', 'unknown']);
});

test('200,000 rules are read', () => {
  const rules = (count: number) =>
    Array.from({length: count}, (_, at) => `\t\tip daddr 10.${at >> 16}.${(at >> 8) & 255}.${at & 255} drop\n`).join('');
  const ruleset = parseNftDump(`table ip x {\n\tchain y {\n${rules(200_000)}\t}\n}\n`);
  expect(ruleset.ruleCount).toBe(200_000);
  expect(ruleset.tables.get('ip x')?.chain('y')?.rules().at(-1)?.text).toBe('ip daddr 10.3.13.63 drop');
});
