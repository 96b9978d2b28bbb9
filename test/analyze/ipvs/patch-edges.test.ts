/** What kube-proxy in IPVS mode changed in patch releases, on both sides of each edge. The rules of the other side are written by hand. */
import {describe, expect, test} from 'vitest';
import {type Scenario, scenario} from '../../scenario.ts';
import {someOf} from '../../cases.ts';

type Change = (given: Scenario) => void;

const node = 'node-a';
const families = [
  ['iptables-save', 'KUBE-'],
  ['ip6tables-save', 'KUBE-6-'],
] as const;

/** Findings of rules on the node of kube-proxy 1.28.3 or 1.36.2 under another version, in short. */
async function found(version: string, changes: readonly Change[], capture = 'ipvs/1.28'): Promise<readonly string[]> {
  const given = await scenario(capture);
  for (const change of changes) change(given);
  given.file(node, 'kube-proxy-version', `${version}\n`);
  const all = given.summaries({nodes: name => name === node});
  const texts = all.flatMap(({code, severity, message}) => (/^ST[23]/.test(code) ? [`${code} ${severity} ${message}`] : []));
  return capture === 'ipvs/1.28' ? texts : texts.filter(text => text.includes('KUBE-IPVS-FILTER'));
}

const asIs: Change = () => {};

const admitsLocal: Change = given => {
  for (const [file, prefix] of families)
    given
      .rules(node, file)
      .insertBefore(
        ['-A KUBE-IPVS-FILTER', `${prefix}HEALTH-CHECK-NODE-PORT`],
        `-A KUBE-IPVS-FILTER -m set --match-set ${prefix}EXTERNAL-IP-LOCAL dst,dst -j RETURN`,
      );
};

const admitsLocalInIPv4Only: Change = given => {
  admitsLocal(given);
  given.rules(node, 'ip6tables-save').delete('-A KUBE-IPVS-FILTER', 'EXTERNAL-IP-LOCAL');
};

const admitsNoLocal: Change = given => {
  for (const [file] of families) given.rules(node, file).delete('-A KUBE-IPVS-FILTER', 'EXTERNAL-IP-LOCAL');
};

const admitsNoHealthChecks: Change = given => {
  for (const [file] of families) given.rules(node, file).delete('-A KUBE-IPVS-FILTER', 'HEALTH-CHECK');
};

const address = '203.0.113.15';

/** The address is one of eth0 too. */
const onInterface: Change = given => {
  const link = (ifname: string, ...locals: readonly string[]): object => ({
    ifname,
    addr_info: locals.map(local => ({local, prefixlen: local.includes(':') ? 128 : 32})),
  });
  const own = JSON.parse(given.rules(node, 'kube-ipvs0.json').toString()) as readonly object[];
  const links = [link('lo', '127.0.0.1', '::1'), link('eth0', '172.18.0.11', address), ...own];
  given.file(node, 'addresses.json', JSON.stringify(links));
};

/** What 1.27.2 does with it: it is not bound, and serves node ports like the node's other address. */
const spared: Change = given => {
  onInterface(given);
  const [link] = JSON.parse(given.rules(node, 'kube-ipvs0.json').toString()) as readonly {readonly addr_info: readonly {local: string}[]}[];
  given.file(node, 'kube-ipvs0.json', JSON.stringify([{...link, addr_info: link?.addr_info.filter(({local}) => local !== address)}]));
  given.rules(node, 'ipset-save').delete(`add KUBE-IPVS-IPS ${address}`);
  for (const file of ['ipvsadm-save', 'ipset-save']) {
    const lines = given.rules(node, file).toString().split('\n');
    const ofNode = /^(?:-[Aa] (?:-[tu]|--sctp-service)|add KUBE-NODE-PORT-\S+) 172\.18\.0\.11[:,]/;
    const again = lines.filter(line => ofNode.test(line)).map(line => line.replace('172.18.0.11', address));
    given.file(node, file, [...lines.filter(line => line !== ''), ...again, ''].join('\n'));
  }
};

interface Edge {
  readonly before: string;
  readonly after: string;
  /** Versions that do not say on which side they are. */
  readonly unsure: readonly string[];
  readonly rulesBefore: readonly Change[];
  readonly rulesAfter: readonly Change[];
  readonly reported: RegExp;
  /** Of a capture of a newer version only what is `reported` counts. */
  readonly capture?: string;
}

const edges: Readonly<Record<string, Edge>> = {
  'external IPs of Local Services, 1.28': {
    ...{before: 'v1.28.5', after: 'v1.28.6', unsure: ['v1.28', 'v1.28.6-rc.0']},
    ...{rulesBefore: [asIs], rulesAfter: [admitsLocal], reported: /KUBE-IPVS-FILTER/},
  },
  'external IPs of Local Services, 1.29': {
    ...{before: 'v1.29.0', after: 'v1.29.2', unsure: ['v1.29', 'v1.29.1', 'v1.29.1-gke.100']},
    ...{rulesBefore: [admitsNoLocal], rulesAfter: [asIs], reported: /KUBE-IPVS-FILTER/, capture: 'ipvs/1.36'},
  },
  'health checks, 1.26': {
    ...{before: 'v1.26.4', after: 'v1.26.5', unsure: ['v1.26']},
    ...{rulesBefore: [admitsNoHealthChecks], rulesAfter: [asIs], reported: /KUBE-IPVS-FILTER/},
  },
  'health checks, 1.27': {
    ...{before: 'v1.27.1', after: 'v1.27.2', unsure: ['v1.27', 'v1.27.2-rc.0']},
    ...{rulesBefore: [admitsNoHealthChecks], rulesAfter: [asIs], reported: /KUBE-IPVS-FILTER/},
  },
  'an address of another interface': {
    ...{before: 'v1.27.1', after: 'v1.27.2', unsure: ['v1.27']},
    ...{rulesBefore: [admitsNoHealthChecks, onInterface], rulesAfter: [spared], reported: /203\.0\.113\.15/},
  },
};

describe.each(someOf(Object.entries(edges)))('%s', (_, {before, after, unsure, rulesBefore, rulesAfter, reported, capture}) => {
  test('the rules of each patch are in sync with its version', async () => {
    expect(await found(before, rulesBefore, capture)).toEqual([]);
    expect(await found(after, rulesAfter, capture)).toEqual([]);
  });

  test('the rules of the other patch are reported', async () => {
    expect(await found(before, rulesAfter, capture)).toContainEqual(expect.stringMatching(reported));
    expect(await found(after, rulesBefore, capture)).toContainEqual(expect.stringMatching(reported));
  });

  test.each(someOf(unsure))('either are in sync with %s', async version => {
    expect(await found(version, rulesBefore, capture)).toEqual([]);
    expect(await found(version, rulesAfter, capture)).toEqual([]);
  });
});

test('a rule that only one family lacks is reported, whatever the patch', async () => {
  expect(await found('v1.28', [admitsLocalInIPv4Only])).toContainEqual(expect.stringMatching(/KUBE-IPVS-FILTER/));
});

test('a rule that both sides of an edge have is reported where the patch is not known', async () => {
  const without: Change = given => {
    given.rules(node).delete('-A KUBE-IPVS-FILTER', 'KUBE-CLUSTER-IP');
  };
  for (const change of [asIs, admitsLocal]) expect(await found('v1.28', [change, without])).toContainEqual(expect.stringMatching(/^ST2/));
});
