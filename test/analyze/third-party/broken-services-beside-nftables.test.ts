import {describe, expect, test} from 'vitest';
import {nftScenario} from '../../nft-scenario.ts';
import {needsAction, type FindingSummary, containing, type Scenario} from '../../scenario.ts';
import {scenarioBesideNft} from './beside-nftables.ts';

interface Breach {
  readonly title: string;
  readonly rules: readonly string[];
  /** Every finding to act on: code, severity, and the Service it names (null for the node). */
  readonly found: readonly (readonly [code: string, severity: string, subject: string | null])[];
}

const breaches: readonly Breach[] = [
  {
    title: 'a host port with the number of a node port, where the order of translation is unknown',
    rules: ['*nat', '-A PREROUTING -p tcp -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DNAT --to-destination 10.244.11.40:80'],
    found: [['ST401', 'warning', 'shop/nodeport:http']],
  },
  {
    title: 'NOTRACK of a cluster IP',
    rules: ['*raw', '-A PREROUTING -d 10.96.1.1/32 -p tcp -m tcp --dport 80 -j NOTRACK'],
    found: [['ST401', 'error', 'shop/web:http']],
  },
  {
    title: 'a DROP of a cluster IP in mangle/PREROUTING',
    rules: ['*mangle', '-A PREROUTING -d 10.96.1.1/32 -j DROP'],
    found: [['ST402', 'error', 'shop/web:http']],
  },
  {
    title: 'a REJECT of the port of an endpoint on the node in INPUT',
    rules: ['*filter', '-A INPUT -p tcp -m tcp --dport 9100 -j REJECT --reject-with icmp-port-unreachable'],
    found: [['ST402', 'error', 'infra/node-exporter:http']],
  },
  // The endpoint itself gets no replies from any Service.
  {
    title: 'a DROP of one endpoint in FORWARD',
    rules: ['*filter', '-A FORWARD -d 10.244.11.8/32 -j DROP'],
    found: [
      ['ST303', 'error', 'shop/half-leaving:http'],
      ['ST402', 'error', null],
    ],
  },
  {
    title: 'a DROP of all pods in FORWARD',
    rules: ['*filter', '-A FORWARD -d 10.244.0.0/16 -j DROP'],
    found: [
      ['ST303', 'error', null],
      ['ST402', 'error', null],
    ],
  },
  {title: 'a FORWARD that drops by its policy', rules: ['*filter', ':FORWARD DROP [0:0]'], found: [['ST303', 'error', null]]},
  // Of the Services, only this one has endpoints in the host network: packets to pods pass FORWARD. The node itself gets no replies.
  {
    title: 'an INPUT that drops by its policy',
    rules: ['*filter', ':INPUT DROP [0:0]'],
    found: [
      ['ST402', 'error', null],
      ['ST402', 'error', 'infra/node-exporter:http'],
    ],
  },
  {
    title: 'an unknown match',
    rules: ['*filter', '-A FORWARD -m bpf --bytecode "4,48 0 0 9,21 0 1 6,6 0 0 1,6 0 0 0" -j DROP'],
    found: [['ST403', 'warning', null]],
  },
  {
    title: 'a mark that is cleared before kube-proxy masquerades',
    rules: ['*mangle', '-A POSTROUTING -j MARK --set-xmark 0x0/0xffffffff'],
    found: [['ST302', 'error', null]],
  },
  {
    title: "the kubelet's drop mark, which is kube-proxy's masquerade mark",
    rules: ['*filter', ':KUBE-FIREWALL - [0:0]', '-A OUTPUT -j KUBE-FIREWALL', '-A KUBE-FIREWALL -m mark --mark 0x4000/0x4000 -j DROP'],
    found: [['ST402', 'error', null]],
  },
  {
    title: 'an ACCEPT in table nat, after which the rules of kube-proxy still apply',
    rules: ['*nat', '-A PREROUTING -d 10.96.1.1/32 -j ACCEPT'],
    found: [],
  },
  {title: 'a DROP of packets to no Service', rules: ['*raw', '-A PREROUTING -d 10.1.2.3/32 -j DROP'], found: []},
];

describe('beside kube-proxy in nftables mode', () => {
  test.each(breaches)('$title', async ({rules, found}) => {
    const given = await nftScenario();
    given.file('node-a', 'iptables-save', dump('nf_tables', rules));
    given.file('node-a', 'ip6tables-save', '');
    expect(brief(given)).toEqual(found);
  });

  test.each(['iptables-legacy-save', 'iptables-nft-save'])('rules of %s beside the other backend are evaluated as well', async file => {
    const given = await nftScenario();
    const drops = ['*raw', '-A PREROUTING -d 10.96.1.1/32 -j DROP'];
    const [here, beside] = file.includes('legacy') ? ['nf_tables', 'legacy'] : ['legacy', 'nf_tables'];
    given.file('node-a', 'iptables-save', dump(here ?? '', ['*nat', '-A PREROUTING -d 10.1.2.3/32 -j ACCEPT']));
    given.file('node-a', file, dump(beside ?? '', drops));
    expect(brief(given)).toContainEqual(['ST402', 'error', 'shop/web:http']);
  });

  test('a table of iptables-nft that is not in the legacy dump is evaluated if the nft dump contains it', async () => {
    const given = await nftScenario(
      text =>
        `table ip raw {\n\tchain PREROUTING {\n\t\ttype filter hook prerouting priority raw; policy accept;\n\t\tip daddr 10.96.1.1 counter drop\n\t}\n}\n${text}`,
    );
    given.file('node-a', 'iptables-save', dump('legacy', ['*raw', '-A PREROUTING -d 10.1.2.3/32 -j DROP']));
    expect(brief(given)).toEqual([['ST402', 'error', 'shop/web:http']]);
  });

  test('IPv6 rules are evaluated for IPv6 Services', async () => {
    const given = await nftScenario();
    given.file('node-a', 'iptables-save', '');
    given.file('node-a', 'ip6tables-save', dump('nf_tables', ['*filter', ':FORWARD DROP [0:0]'], 'ip6tables'));
    expect(news(given).map(({code, family}) => [code, family])).toEqual([['ST303', 'IPv6']]);
  });

  test('a truncated dump of iptables leaves the node unread, and the part before its end is evaluated', async () => {
    const given = await nftScenario();
    const whole = dump('nf_tables', ['*raw', '-A PREROUTING -d 10.96.1.1/32 -j DROP']);
    given.file('node-a', 'iptables-save', `${whole}*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p icmp -j AC`);
    given.file('node-a', 'ip6tables-save', '');
    expect(brief(given)).toEqual([
      ['ST402', 'error', 'shop/web:http'],
      ['ST506', 'warning', null],
    ]);
  });

  test('iptables that were not read are reported, and iptables without rules are not', async () => {
    const given = await nftScenario();
    const unseen = (files: string): FindingSummary =>
      expect.objectContaining({code: 'ST902', severity: 'info', message: containing(`there is no ${files} of node-a`)});
    const said = (): readonly FindingSummary[] => given.summaries({nodes: node => node === 'node-a'}).filter(({code}) => code === 'ST902');
    expect(said()).toEqual([unseen('iptables-save and no ip6tables-save')]);
    given.file('node-a', 'iptables-save', '');
    expect(said()).toEqual([unseen('ip6tables-save')]);
    given.file('node-a', 'ip6tables-save', '');
    expect(said()).toEqual([]);
  });

  test('Docker that publishes a port with the number of a node port is found among its usual rules', async () => {
    const given = await scenarioBesideNft({name: 'docker'}, rules =>
      rules.replace(['-A DOCKER', '--dport 8081'], '--dport 8081', '--dport 30083'),
    );
    expect(brief(given)).toEqual([['ST401', 'warning', 'shop/lb-cluster:https']]);
  });

  test('flannel rules that accept the pods of another cluster are found', async () => {
    const given = await scenarioBesideNft({name: 'flannel-drop'}, rules => {
      rules.replace(['-A FLANNEL-FWD -s'], '10.244.0.0/16', '10.42.0.0/16');
      rules.replace(['-A FLANNEL-FWD -d'], '10.244.0.0/16', '10.42.0.0/16');
    });
    expect(brief(given)).toEqual([['ST303', 'error', null]]);
  });
});

/** A dump of one table with these lines, the first of which names it. */
function dump(backend: string, [table = '', ...lines]: readonly string[], tool = 'iptables'): string {
  const hooks =
    table === '*filter'
      ? ['INPUT', 'FORWARD', 'OUTPUT']
      : table === '*raw'
        ? ['PREROUTING', 'OUTPUT']
        : ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'];
  const declared = lines.filter(line => line.startsWith(':'));
  const chains = hooks.filter(hook => !declared.some(line => line.startsWith(`:${hook} `))).map(hook => `:${hook} ACCEPT [0:0]`);
  const rules = lines.filter(line => !line.startsWith(':'));
  return [
    `# Generated by ${tool}-save v1.8.9 (${backend}) on Sat Nov 21 12:00:00 2026`,
    table,
    ...chains,
    ...declared,
    ...rules,
    'COMMIT',
    '',
  ].join('\n');
}

function news(given: Scenario): readonly FindingSummary[] {
  return given.newFindings().filter(finding => needsAction(finding) && /^ST[2-9]/.test(finding.code));
}

function brief(given: Scenario): readonly (readonly [string, string, string | null])[] {
  return news(given).map(({code, severity, subject = null}) => [code, severity, subject]);
}
