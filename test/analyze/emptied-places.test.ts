import {describe, expect, test} from 'vitest';
import {nftScenario, replaced} from '../nft-scenario.ts';
import {type Scenario, scenario} from '../scenario.ts';

/** Each finding of the node in short, with how many Services it names. */
const news = (given: Scenario) =>
  given
    .newFindings()
    .filter(({node}) => node !== undefined)
    .map(({code, severity, subject, message}) => `${code} ${severity} ${subject ?? message.replace(/, and lacks.*?(?= of \d|:)/, '')}`);

/** node-b without these lines in one table of IPv4. */
async function withoutLines(table: string, lines: RegExp): Promise<Scenario> {
  const given = await scenario();
  const parts = given
    .rules('node-b')
    .toString()
    .split(/(?=^\*)/m);
  const left = parts.map(part => (part.startsWith(`*${table}\n`) ? part.replaceAll(new RegExp(`${lines.source}.*\n`, 'gm'), '') : part));
  given.file('node-b', 'iptables-save', left.join(''));
  return given;
}

describe('a chain of table filter that something emptied is one finding of each kind, with the Services whose rules it held', () => {
  test.each<readonly [chain: string, found: readonly string[]]>([
    [
      'KUBE-SERVICES',
      ['ST207 error filter/KUBE-SERVICES is empty of 2 Services', 'ST212 error filter/KUBE-SERVICES is empty of 3 Services'],
    ],
    // One Service tells more by itself.
    ['KUBE-EXTERNAL-SERVICES', ['ST207 error filter/KUBE-EXTERNAL-SERVICES is empty of 3 Services', 'ST212 error shop/empty-lb:http']],
    ['KUBE-PROXY-FIREWALL', ['ST210 error shop/lb-ranges:http']],
    ['KUBE-FORWARD', ['ST217 info filter/KUBE-FORWARD is empty: INVALID packets are not dropped']],
  ])('%s', async (chain, found) => {
    const short = news(await withoutLines('filter', new RegExp(`^-A ${chain} `)));
    expect(short).toEqual(found.map(text => expect.stringMatching(`^${text}`)));
  });
});

test.each([
  ['KUBE-SERVICES', 'ST305 error nat/KUBE-SERVICES is missing: no Service works on this node'],
  ['KUBE-NODEPORTS', 'ST304 error nat/KUBE-NODEPORTS is missing: no node port answers on this node'],
])('a chain %s that was removed with its jumps is one error', async (chain, found) => {
  const given = await withoutLines('nat', new RegExp(`^(?::${chain} |-A ${chain} |-A \\S+ .*-j ${chain}$)`));
  expect(news(given).filter(text => text.includes(' error '))).toEqual([found]);
});

test('KUBE-MARK-MASQ that was removed with all jumps to it is one error with the Services that are masqueraded no more', async () => {
  const lines = /^(?::KUBE-MARK-MASQ |-A KUBE-MARK-MASQ |-A \S+ .*-j KUBE-MARK-MASQ$)/;
  expect(news(await withoutLines('nat', lines))).toEqual([
    expect.stringMatching(
      /^ST302 error nat\/KUBE-MARK-MASQ is missing, and so are the rules of 26 Services that jump to it: clients outside/,
    ),
  ]);
});

test('a Service that lacks an endpoint besides has its own finding beside a KUBE-MARK-MASQ that was removed', async () => {
  const lines = /^(?::KUBE-MARK-MASQ |-A KUBE-MARK-MASQ |-A \S+ .*-j KUBE-MARK-MASQ$|-A KUBE-SEP-\S+ .*"shop\/web:http" .*10.244.11.4)/;
  expect(news(await withoutLines('nat', lines))).toEqual(
    expect.arrayContaining([expect.stringMatching(/^ST302 error /), expect.stringMatching(/ error shop\/web:http$/)]),
  );
});

test('mark-for-masquerade that was removed with all jumps to it is one error in nftables mode', async () => {
  const remove = (ruleset: string) => {
    const [before = '', ipv6 = ''] = ruleset.split(/(?=table ip6 kube-proxy )/);
    return before.replace(/\tchain mark-for-masquerade \{[^}]*\}\n/, '').replaceAll(/^.* jump mark-for-masquerade.*\n/gm, '') + ipv6;
  };
  expect(news(await nftScenario(remove, '1.33'))).toEqual([
    expect.stringMatching(
      /^ST302 error chain mark-for-masquerade of ip kube-proxy is missing, and so are the rules of 27 Services that jump to it: clients/,
    ),
  ]);
});

test('a map of node ports that held one element is told like one that held many', async () => {
  const map = /(table ip6 kube-proxy [\s\S]*?map service-nodeports \{[^}]*?)\t\telements = \{[^}]*\}\n/;
  expect(news(await nftScenario(replaced(map, '$1')))).toEqual([
    expect.stringMatching(/^ST304 error map service-nodeports of ip6 kube-proxy is empty: no node port answers/),
  ]);
});

test('in nftables mode an emptied set that holds one element of two Services is one error', async () => {
  const sets = /(table ip6 kube-proxy [\s\S]*?set hairpin-connections \{[^}]*?)\t\telements = \{[^}]*\}\n/;
  expect(news(await nftScenario(replaced(sets, '$1')))).toEqual([
    expect.stringMatching(
      /^ST211 error set hairpin-connections of ip6 kube-proxy is empty of 2 Services, such as infra\/dual: packets from endpoint/,
    ),
  ]);
});

test('Services without endpoints that were made while a kube-proxy stood still are not taken for an emptied chain beside rules that are left', async () => {
  const given = await scenario();
  given.rules('node-b').delete('-A KUBE-SERVICES', '"shop/empty:http has no endpoints"');
  expect(news(given)).toEqual(['ST212 error shop/empty:http']);
});
