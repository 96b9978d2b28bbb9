import {describe, expect, test} from 'vitest';
import {someOf} from '../../cases.ts';
import {captureNames, snapshotOf} from '../../fixtures.ts';
import {findingsOf, needsAction, type FindingSummary, containing, type Scenario, scenario} from '../../scenario.ts';

const node = 'node-a';

describe.each(someOf(captureNames('ipvs')))('the healthy node of %s', name => {
  test('has no finding but of what its version does wrong (ST7xx)', async () => {
    const found = findingsOf(await snapshotOf(name), {nodes: wanted => wanted === node});
    expect(
      found
        .filter(finding => finding.node !== undefined || (needsAction(finding) && !finding.code.startsWith('ST1')))
        .filter(({code}) => !code.startsWith('ST7')),
    ).toEqual([]);
  });
});

async function broken(change: (given: Scenario) => void): Promise<readonly FindingSummary[]> {
  const given = await scenario('ipvs/1.36');
  change(given);
  return given.newFindings({nodes: name => name === node});
}

const at = {node, family: 'IPv4'};
const servers = (given: Scenario) => given.rules(node, 'ipvsadm-save');
const sets = (given: Scenario) => given.rules(node, 'ipset-save');

function addServer(given: Scenario, ...lines: readonly string[]): void {
  given.file(node, 'ipvsadm-save', `${servers(given)}${lines.join('\n')}\n`);
}

function device(given: Scenario, change: (addresses: readonly string[]) => readonly string[]): void {
  const [link] = JSON.parse(given.rules(node, 'kube-ipvs0.json').toString()) as readonly {addr_info: readonly {local: string}[]}[];
  const changed = change((link?.addr_info ?? []).map(({local}) => local)).map(local => ({local}));
  given.file(node, 'kube-ipvs0.json', JSON.stringify([{...link, addr_info: changed}]));
}

describe('a virtual server', () => {
  test('that is missing and was the only one leaves its Service without programming', async () => {
    const found = await broken(given => servers(given).deleteAll('10.96.1.1:80 '));
    expect(found).toEqual([
      {
        ...{
          ...at,
          code: 'ST201',
          severity: 'error',
          subject: 'shop/web:http',
          message: containing('shop/web:http', 'not programmed on this node'),
        },
        expected: [
          '-A -t 10.96.1.1:80 -s rr',
          '-a -t 10.96.1.1:80 -r 10.244.11.4:8080 -m -w 1',
          '-a -t 10.96.1.1:80 -r 10.244.11.5:8080 -m -w 1',
          '-a -t 10.96.1.1:80 -r 10.244.12.4:8080 -m -w 1',
        ],
      },
    ]);
  });

  test('that is missing among several is a missing entry', async () => {
    const found = await broken(given => servers(given).deleteAll('172.18.0.11:30080 '));
    expect(found).toEqual([
      expect.objectContaining({...at, code: 'ST206', severity: 'error', subject: 'shop/nodeport:http', entry: 'node port 30080'}),
    ]);
  });

  test('of a Service without endpoints no longer rejects packets when it is missing', async () => {
    const found = await broken(given => servers(given).delete('-A -t 10.96.1.15:80 '));
    expect(found.map(({code, severity, subject}) => [code, severity, subject])).toEqual([['ST212', 'error', 'shop/empty-lb:http']]);
  });

  test('of a deleted Service still answers', async () => {
    const found = await broken(given => given.deleteService('shop/web'));
    expect(found.filter(({code}) => code.startsWith('ST2')).map(({code, severity, message}) => [code, severity, message])).toEqual([
      ['ST205', 'error', containing('still answers at 10.96.1.1:80/TCP: the API has no such Service')],
    ]);
  });

  test('of another program is a warning: kube-proxy deletes it', async () => {
    const found = await broken(given => addServer(given, '-A -t 192.0.2.99:80 -s rr', '-a -t 192.0.2.99:80 -r 10.1.1.1:80 -m -w 1'));
    expect(found.map(({code, severity, message}) => [code, severity, message])).toEqual([
      ['ST216', 'warning', containing('192.0.2.99:80/TCP', 'excludeCIDRs')],
    ]);
  });

  test('inside excludeCIDRs is ignored', async () => {
    const found = await broken(given => {
      addServer(given, '-A -t 192.0.2.99:80 -s rr', '-a -t 192.0.2.99:80 -r 10.1.1.1:80 -m -w 1');
      const config = given.rules(node, 'configz.json').toString();
      given.file(node, 'configz.json', config.replace('"excludeCIDRs":null', '"excludeCIDRs":["192.0.2.0/24"]'));
    });
    expect(found).toEqual([]);
  });

  test('with another timeout, or none, is a fault of session affinity', async () => {
    const found = await broken(given => servers(given).replace(['-A -t 172.18.0.11:30087 '], '-p 600', '-p 60'));
    expect(found).toEqual([
      {
        ...{...at, code: 'ST209', severity: 'warning', subject: 'shop/sticky-short:http'},
        message: containing('session affinity of 60 s is programmed: ClientIP for 600 s is configured'),
        expected: ['-A -t 172.18.0.11:30087 -s rr -p 600'],
        actual: [expect.stringContaining(': -A -t 172.18.0.11:30087 -s rr -p 60')],
      },
    ]);
  });

  test('with another scheduler, like all others, is one finding', async () => {
    const found = await broken(given => servers(given).replaceAll(' -s rr', ' -s sh'));
    expect(found.map(({code, severity, family, message}) => [code, severity, family, message])).toEqual([
      ['ST208', 'warning', 'IPv4', containing('connections are scheduled by sh, and kube-proxy is set to rr (', 'Service ports')],
      ['ST208', 'warning', 'IPv6', containing('connections are scheduled by sh, and kube-proxy is set to rr')],
    ]);
  });

  test('that is missing, like all others, is a node without rules', async () => {
    const found = await broken(given => given.file(node, 'ipvsadm-save', ''));
    expect(found.map(({code, severity, family}) => [code, severity, family])).toEqual([
      ['ST305', 'error', 'IPv4'],
      ['ST305', 'error', 'IPv6'],
    ]);
  });
});

describe('a real server', () => {
  const one = '-a -t 10.96.1.1:80 -r 10.244.11.4:8080 ';

  test('that is missing is a missing endpoint', async () => {
    const found = await broken(given => servers(given).delete(one));
    expect(found).toEqual([
      {
        ...{...at, code: 'ST202', severity: 'error', subject: 'shop/web:http', endpoint: '10.244.11.4:8080'},
        message: containing('endpoint 10.244.11.4:8080 (pod shop/web-1 on node-a) gets no traffic'),
        expected: ['-a -t 10.96.1.1:80 -r 10.244.11.4:8080 -m -w 1'],
        actual: expect.arrayContaining([expect.stringContaining('-A -t 10.96.1.1:80 -s rr')]),
      },
    ]);
  });

  test('of weight 0 that should be used is a missing endpoint', async () => {
    const found = await broken(given => servers(given).replace([one], '-w 1', '-w 0'));
    expect(found.map(({code, endpoint}) => [code, endpoint])).toEqual([['ST202', '10.244.11.4:8080']]);
  });

  test.each([
    ['v1.25.4', 'A restart of kube-proxy before 1.26 keeps the weight 0'],
    ['v1.36.2', 'Or restart kube-proxy: it corrects weights only in its first sync'],
  ])('of weight 0 is to be deleted, and %s says whether a restart helps', async (version, advice) => {
    const given = await scenario('ipvs/1.36');
    given.file('node-a', 'kube-proxy-version', version);
    servers(given).replace([one], '-w 1', '-w 0');
    const found = given.findings({nodes: name => name === 'node-a'}).find(({code, service}) => code === 'ST202' && service?.name === 'web');
    expect(found?.remedy).toMatch(/^Delete the real server on this node \(ipvsadm -d -t 10\.96\.1\.1:80 -r \S+\)/);
    expect(found?.remedy).toContain(advice);
  });

  test('of weight 0 that is not expected waits for its connections to end', async () => {
    expect(await broken(given => servers(given).insertAfter([one], '-a -t 10.96.1.1:80 -r 10.244.11.77:8080 -m -w 0'))).toEqual([]);
  });

  test('that accepts connections and is not an endpoint is stale', async () => {
    const found = await broken(given => servers(given).insertAfter([one], '-a -t 10.96.1.1:80 -r 10.244.11.77:8080 -m -w 1'));
    expect(found).toEqual([
      {
        ...{...at, code: 'ST203', severity: 'error', subject: 'shop/web:http', endpoint: '10.244.11.77:8080'},
        message: containing('25% of the traffic goes to 10.244.11.77:8080, which is no endpoint of the Service'),
        actual: [expect.stringContaining('-r 10.244.11.77:8080 -m -w 1')],
      },
    ]);
  });

  test('of another weight is uneven only with a scheduler that uses weights', async () => {
    const heavier = (given: Scenario): unknown => servers(given).replace([one], '-w 1', '-w 5');
    expect((await broken(heavier)).map(({code, severity}) => [code, severity])).toEqual([['ST208', 'info']]);
    const weighted = await scenario('ipvs/1.36');
    heavier(weighted);
    servers(weighted).replaceAll(' -s rr', ' -s wrr');
    weighted.file(node, 'configz.json', weighted.rules(node, 'configz.json').toString().replace('"scheduler":"rr"', '"scheduler":"wrr"'));
    expect(weighted.newFindings({nodes: name => name === node})).toEqual([
      expect.objectContaining({
        code: 'ST208',
        severity: 'warning',
        subject: 'shop/web:http',
        message: containing('10.244.11.4:8080 71.4%'),
      }),
    ]);
  });

  test('that is not masqueraded gets packets with another destination address', async () => {
    const found = await broken(given => servers(given).replace([one], ' -m ', ' -g '));
    expect(found.map(({code, severity, endpoint}) => [code, severity, endpoint])).toEqual([['ST204', 'error', '10.244.11.4:8080']]);
  });

  test('on another node under a Local policy distributes traffic like the Cluster policy', async () => {
    const found = await broken(given =>
      servers(given).insertAfter(['-A -t 172.18.0.11:30087 '], '-a -t 172.18.0.11:30087 -r 10.244.12.4:8080 -m -w 1'),
    );
    expect(found.map(({code, subject, message}) => [code, subject, message])).toEqual([
      [
        'ST207',
        'shop/sticky-short:http',
        containing('to its node port 30087 are balanced by the Cluster policy, and should be by the Local policy'),
      ],
    ]);
  });
});

describe('kube-ipvs0', () => {
  test('without an address does not accept packets to it', async () => {
    const found = await broken(given => device(given, addresses => addresses.filter(address => address !== '10.96.1.1')));
    expect(found).toEqual([
      {
        ...{...at, code: 'ST206', severity: 'error', subject: 'shop/web:http', entry: 'cluster IP 10.96.1.1:80'},
        message: containing('are not accepted by the node: kube-ipvs0 does not have the address'),
        expected: ['10.96.1.1/32'],
      },
    ]);
  });

  test('without any address is one finding for each family', async () => {
    const found = await broken(given => device(given, () => []));
    expect(found.map(({code, severity, family, message}) => [code, severity, family, message])).toEqual([
      ['ST301', 'error', 'IPv4', containing('kube-ipvs0', 'none of the 38 addresses')],
      ['ST301', 'error', 'IPv6', containing('kube-ipvs0', 'none of the 2 addresses')],
    ]);
  });

  test('with an address of no Service keeps its packets', async () => {
    const found = await broken(given => device(given, addresses => [...addresses, '10.96.77.77']));
    expect(found.map(({code, severity, message}) => [code, severity, message])).toEqual([
      ['ST205', 'warning', containing('still has the address 10.96.77.77')],
    ]);
  });
});

describe('an ipset', () => {
  test('without a cluster IP rejects packets to it', async () => {
    const found = await broken(given => sets(given).delete('KUBE-CLUSTER-IP 10.96.1.1,tcp:80'));
    expect(found).toEqual([
      {
        ...{...at, code: 'ST213', severity: 'error', subject: 'shop/web:http', entry: 'cluster IP 10.96.1.1:80'},
        message: containing('refused by KUBE-IPVS-FILTER, because KUBE-CLUSTER-IP lacks'),
        expected: ['add KUBE-CLUSTER-IP 10.96.1.1,tcp:80'],
      },
    ]);
  });

  test.each([
    ['KUBE-LOOP-BACK 10.244.11.4,tcp:8080', 'ST211', 'error'],
    ['KUBE-NODE-PORT-TCP 30080', 'ST211', 'error'],
    ['KUBE-NODE-PORT-LOCAL-TCP 30081', 'ST211', 'warning'],
    ['KUBE-LOAD-BALANCER-FW 203.0.113.13', 'ST210', 'error'],
    ['KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.13,tcp:80,198.51.100.0/24', 'ST210', 'error'],
    ['KUBE-HEALTH-CHECK-NODE-PORT 32100', 'ST219', 'warning'],
    ['KUBE-IPVS-IPS 10.96.1.1', 'ST217', 'warning'],
  ])('without %s is %s', async (element, code, severity) => {
    const found = await broken(given => {
      const line = sets(given)
        .toString()
        .split('\n')
        .find(text => text === `add ${element}` || text.startsWith(`add ${element},`));
      given.file(node, 'ipset-save', sets(given).toString().replace(`${line}\n`, ''));
    });
    expect(new Set(found.map(finding => `${finding.code} ${finding.severity}`))).toEqual(new Set([`${code} ${severity}`]));
  });

  test('without any elements is one finding of each kind', async () => {
    const found = await broken(given => sets(given).deleteAll('add KUBE-LOOP-BACK '));
    expect(found.map(({code, severity, message}) => [code, severity, message])).toEqual([
      ['ST211', 'error', containing('ipset KUBE-LOOP-BACK holds nothing, so packets from endpoint', 'Service ports, such as')],
    ]);
  });

  test('of another type stops kube-proxy', async () => {
    const found = await broken(given => sets(given).replace(['create KUBE-EXTERNAL-IP-LOCAL '], 'hash:ip,port', 'hash:ip'));
    expect(found.map(({code, severity, message}) => [code, severity, message])).toEqual([
      ['ST216', 'error', containing('KUBE-EXTERNAL-IP-LOCAL is of type hash:ip')],
    ]);
  });
});

describe('the base rules of iptables', () => {
  test.each([
    [['-A PREROUTING', 'KUBE-SERVICES'], 'ST301', 'error'],
    [['-A OUTPUT', 'KUBE-SERVICES'], 'ST301', 'error'],
    [['-A POSTROUTING', 'KUBE-POSTROUTING'], 'ST302', 'error'],
    [['-A INPUT', 'KUBE-PROXY-FIREWALL'], 'ST301', 'error'],
    [['-A INPUT', 'KUBE-IPVS-FILTER'], 'ST301', 'warning'],
    [['-A OUTPUT', 'KUBE-IPVS-OUT-FILTER'], 'ST301', 'error'],
    [['-A KUBE-MARK-MASQ'], 'ST302', 'error'],
    [['-A KUBE-POSTROUTING', 'requiring SNAT'], 'ST302', 'error'],
    [['-A KUBE-POSTROUTING', 'hairpin'], 'ST211', 'error'],
    [['-A KUBE-SERVICES', 'KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ'], 'ST211', 'error'],
    [['-A KUBE-SERVICES', 'addrtype --dst-type LOCAL -j KUBE-NODE-PORT'], 'ST211', 'error'],
    [['-A KUBE-SOURCE-RANGES-FIREWALL', '-j DROP'], 'ST210', 'error'],
    [['-A KUBE-SOURCE-RANGES-FIREWALL', '-j RETURN'], 'ST210', 'error'],
    [['-A KUBE-IPVS-FILTER', 'KUBE-CLUSTER-IP'], 'ST213', 'error'],
    [['-A KUBE-IPVS-FILTER', 'REJECT'], 'ST217', 'warning'],
    [['-A KUBE-IPVS-OUT-FILTER'], 'ST210', 'error'],
    [['-A KUBE-NODE-PORT', 'health check'], 'ST219', 'warning'],
    [['-A KUBE-SERVICES -s 127.0.0.0/8'], 'ST217', 'info'],
  ])('without %j is %s', async (words, code, severity) => {
    const found = await broken(given => given.rules(node).delete(...words));
    expect(found.map(finding => [finding.code, finding.severity])).toEqual([[code, severity]]);
  });

  test('without clusterCIDR are right, and lose what the node itself sends without the rule for its packets', async () => {
    const found = (isWhole: boolean) =>
      broken(given => {
        for (const [file, setting] of [
          ['configz.json', /(?<="(?:clusterCIDR|detectLocal)":")[^"]*/g],
          ['kube-proxy-config.yaml', /^clusterCIDR:.*$/gm],
        ] as const)
          given.file(node, file, given.rules(node, file).toString().replace(setting, ''));
        const words = ['-A KUBE-SERVICES', 'KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ'];
        given.rules(node).replace(words, / ! -s \S+(.*)dst,dst/, '$1src,dst');
        if (!isWhole) given.rules(node).delete('-A KUBE-SERVICES', 'src,dst -j KUBE-MARK-MASQ');
      });
    expect(await found(true)).toEqual([]);
    expect((await found(false)).map(({code, severity}) => [code, severity])).toEqual([['ST211', 'error']]);
  });

  test('with a rule that opens the ports of the node at the address of one Service are a warning', async () => {
    const rule = '-A KUBE-IPVS-FILTER -d 10.96.1.20/32 -j ACCEPT';
    const found = await broken(given => given.rules(node).insertBefore(['-A KUBE-IPVS-FILTER', 'KUBE-LOAD-BALANCER'], rule));
    expect(found.map(({code, severity, message}) => [code, severity, message])).toEqual([
      ['ST216', 'warning', containing('ports of the node itself can be reached at the addresses of Services')],
    ]);
  });

  test('that were flushed in table nat are one finding', async () => {
    const found = await broken(given => given.rules(node).deleteAll('KUBE-LOAD-BALANCER', '-A KUBE-S'));
    expect(found.length).toBeGreaterThan(0);
    const flushed = await broken(given => {
      const [filter] = given.rules(node).toString().split('*nat');
      given.file(
        node,
        'iptables-save',
        `${filter}*nat\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n`,
      );
    });
    // Virtual servers still serve pods: nothing is masqueraded, and not "no Service works".
    expect(flushed.map(({code, severity, message}) => [code, severity, message])).toEqual([
      ['ST305', 'error', containing("table nat holds none of kube-proxy's rules: clients outside the cluster may get no reply")],
    ]);
  });

  test('that detect pods by another network are one finding', async () => {
    const found = await broken(given => given.rules(node).replace(['! -s 10.244.0.0/16'], '10.244.0.0/16', '10.200.0.0/16'));
    expect(found.map(({code, message}) => [code, message])).toEqual([
      ['ST504', containing('clients in 10.200.0.0/16', 'clients in 10.244.0.0/16')],
    ]);
  });

  test('that lack rules for a set that the node has not filled yet are reported for the Service', async () => {
    const found = await broken(given => {
      sets(given).deleteAll('add KUBE-EXTERNAL-IP ');
      given.rules(node).deleteAll('-A KUBE-SERVICES', '--match-set KUBE-EXTERNAL-IP ');
    });
    expect(found.map(({message}) => message).join()).not.toContain('nat/KUBE-SERVICES');
    expect(found.length).toBeGreaterThan(0);
  });
});

describe('a file that was not read', () => {
  test.each([
    ['ipvsadm-save', 'its virtual servers were not read'],
    ['ipset-save', 'its ipsets were not read'],
    ['kube-ipvs0.json', 'the addresses of kube-ipvs0 were not read'],
    ['iptables-save', 'there is no iptables-save of it'],
  ])('of %s leaves the node unread, and nothing is reported as missing because of it', async (file, reason) => {
    const found = await broken(given => given.file(node, file, null));
    expect(found.filter(({code}) => !code.startsWith('ST9'))).toEqual([]);
    expect(found.map(({message}) => message).join()).toContain(reason);
  });

  test.each(['ipvsadm-save', 'ipset-save'])('a truncated %s is reported', async file => {
    const found = await broken(given => given.file(node, file, given.rules(node, file).toString().slice(0, -30)));
    expect(found.filter(({code}) => !code.startsWith('ST9'))).toEqual([]);
    expect(found.map(({message}) => message).join()).toContain(`its ${file} is truncated`);
  });

  test('an ipset-save that lacks sets which rules match is a part', async () => {
    const only = (dump: string): string => (dump.match(/^(?:create|add) KUBE-LOOP-BACK .*\n/gm) ?? []).join('');
    const found = await broken(given => given.file(node, 'ipset-save', only(given.rules(node, 'ipset-save').toString())));
    expect(found.map(({code}) => code)).toEqual(['ST902', 'ST902']);
    expect(found[0]?.message).toContain('its ipset-save is only a part (rules match KUBE-LOAD-BALANCER, which it does not list)');
  });
});

describe('third-party rules', () => {
  test('that drop all incoming packets are reported', async () => {
    const found = await broken(given => given.rules(node).policy('filter', 'INPUT', 'DROP'));
    expect(found.map(({code, severity, message}) => [code, severity, message])).toEqual([
      ['ST402', 'error', containing('are dropped because no rule accepts them and the policy of filter/INPUT is DROP (', 'Service ports')],
    ]);
  });

  test('that drop the packets of one Service are reported for it', async () => {
    const found = await broken(given => given.rules(node).append('filter', '-A INPUT -d 10.96.1.1/32 -j DROP'));
    expect(found.map(({code, subject, actual}) => [code, subject, actual])).toEqual([
      ['ST402', 'shop/web:http', [expect.stringContaining('-A INPUT -d 10.96.1.1/32 -j DROP')]],
    ]);
  });

  test('that send packets elsewhere are reported', async () => {
    const found = await broken(given =>
      given.rules(node).insertBefore(['-A PREROUTING'], '-A PREROUTING -d 10.96.1.1/32 -p tcp -j DNAT --to-destination 10.9.9.9:80'),
    );
    expect(found.map(({code, subject}) => [code, subject])).toEqual([['ST401', 'shop/web:http']]);
  });

  test('that accept packets are not reported', async () => {
    expect(await broken(given => given.rules(node).append('filter', '-A INPUT -s 10.0.0.0/8 -j ACCEPT'))).toEqual([]);
  });

  test('that iptables mode left behind may reject packets', async () => {
    const found = await broken(given => {
      const rules = given.rules(node);
      rules.declare('filter', 'KUBE-EXTERNAL-SERVICES');
      rules.append('filter', '-A INPUT -m conntrack --ctstate NEW -j KUBE-EXTERNAL-SERVICES');
      rules.append(
        'filter',
        '-A KUBE-EXTERNAL-SERVICES -d 203.0.113.14/32 -p tcp -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable',
      );
    });
    expect(found.map(({code, severity, subject, message}) => [code, severity, subject, message])).toEqual([
      [
        'ST213',
        'error',
        'shop/lb-no-nodeport:http',
        containing('refused by a rule that iptables mode left behind in filter/KUBE-EXTERNAL-SERVICES'),
      ],
    ]);
  });
});

describe('settings without a source', () => {
  test('are read from the base rules', async () => {
    const given = await scenario('ipvs/1.36');
    for (const file of ['configz.json', 'kube-proxy-config.yaml', 'proxy-mode', 'kube-proxy-version']) given.file(node, file, null);
    expect(given.newFindings({nodes: name => name === node})).toEqual([]);
  });
});
