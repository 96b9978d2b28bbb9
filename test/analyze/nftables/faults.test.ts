/** What goes wrong in nftables mode is found under the code that it has in every mode. */
import {describe, expect, test} from 'vitest';
import {diagnose} from '../../../src/diagnose.ts';
import {nftScenario, replaced, shortNews, withRules} from '../../nft-scenario.ts';

const web = 'shop/web/tcp/http';
const marks = 'meta mark set meta mark | 0x00004000';
const balanced = 'numgen random mod 3 map { 0 : 10.244.11.4 . 8080, 1 : 10.244.11.5 . 8080, 2 : 10.244.12.4 . 8080 }';
const ofWeb = (by: string) => withRules(`service-KHN6ECMT-${web}`, `meta l4proto tcp dnat ip to ${by}`);

const inFront = (table: string) => (ruleset: string) => `${table}\n${ruleset}`;

test.each([
  ['56000-65535', 'error ST213', 'packets from a pod of this node, source port 56000-60999'],
  ['{ 1024-5000, 6000 }', 'info ST216', 'source port 1024-5000, 6000 are affected'],
])('a rule in the chain of a Service with the source ports %s is decided by those of clients', async (ports, said, text) => {
  const given = await nftScenario(ruleset =>
    ruleset.replace(`chain service-KHN6ECMT-${web} {\n`, start => `${start}\t\ttcp sport ${ports} drop\n`),
  );
  const news = given.newFindings();
  expect(news.map(({severity, code}) => `${severity} ${code}`)).toEqual([said]);
  expect(news[0]?.message).toContain(text);
});

describe('a Service port', () => {
  test.each<[what: string, change: (ruleset: string) => string, found: readonly string[]]>([
    ['without its only entry is not programmed', replaced(/10\.96\.1\.1 \. tcp \. 80 : goto \S+,\s+/, ''), ['ST201 error shop/web:http']],
    [
      'without one of its entries lacks that one',
      replaced(/tcp \. 30080 : goto \S+,\s+/, ''),
      ['ST206 error shop/nodeport:http node port 30080'],
    ],
    [
      'that leaves out an endpoint misses it',
      ofWeb('numgen random mod 2 map { 0 : 10.244.11.4 . 8080, 1 : 10.244.12.4 . 8080 }'),
      ['ST202 error shop/web:http 10.244.11.5:8080'],
    ],
    [
      'that sends to an endpoint of yesterday misses one and has a stale one',
      ofWeb('numgen random mod 3 map { 0 : 10.244.11.3 . 8080, 1 : 10.244.11.5 . 8080, 2 : 10.244.12.4 . 8080 }'),
      ['ST202 error shop/web:http 10.244.11.4:8080', 'ST203 error shop/web:http 10.244.11.3:8080'],
    ],
    [
      'with an address out of order, which kube-proxy never writes, has that address wrong',
      ofWeb('numgen random mod 3 map { 0 : 10.244.99.9 . 8080, 1 : 10.244.11.5 . 8080, 2 : 10.244.12.4 . 8080 }'),
      ['ST204 error shop/web:http 10.244.11.4:8080'],
    ],
    [
      'with another port has a wrong address',
      ofWeb('numgen random mod 3 map { 0 : 10.244.11.4 . 8081, 1 : 10.244.11.5 . 8080, 2 : 10.244.12.4 . 8080 }'),
      ['ST204 error shop/web:http 10.244.11.4:8080'],
    ],
    [
      'may be balanced unevenly',
      ofWeb('numgen random mod 4 map { 0 : 10.244.11.4 . 8080, 1 : 10.244.11.5 . 8080, 2 : 10.244.12.4 . 8080, 3 : 10.244.11.4 . 8080 }'),
      ['ST208 warning shop/web:http'],
    ],
    ['may lead to an empty chain', withRules(`service-KHN6ECMT-${web}`), ['ST214 error shop/web:http cluster IP 10.96.1.1:80']],
    [
      'may lack the rule that leads on to its endpoints',
      withRules('external-6HDZL72K-shop/nodeport/tcp/http', `${marks} comment "masquerade"`),
      ['ST206 error shop/nodeport:http node port 30080'],
    ],
    [
      'with a Local policy may be spread as for Cluster',
      withRules(
        'external-5C7MGBTD-shop/nodeport-local/tcp/http',
        `${marks} comment "masquerade"`,
        'goto service-5C7MGBTD-shop/nodeport-local/tcp/http',
      ),
      ['ST207 error shop/nodeport-local:http node port 30081'],
    ],
    [
      'may have open source ranges',
      withRules('firewall-MS7URUV6-shop/lb-ranges/tcp/http'),
      ['ST210 error shop/lb-ranges:http load-balancer IP 203.0.113.13:80'],
    ],
    [
      'may lose the address in its source ranges',
      replaced('{ 198.51.100.0/24, 203.0.113.0/28 }', '203.0.113.0/28'),
      ['ST210 error shop/lb-ranges:http load-balancer IP 203.0.113.13:80'],
    ],
    ['may remember clients for another time', replaced('timeout 10m', 'timeout 20m'), ['ST209 warning shop/sticky-short:http']],
    [
      'may not remember clients',
      replaced(/\t\tip saddr @affinity-\S+ goto endpoint-\w+-shop\/sticky\/\S+\n/g, ''),
      ['ST209 warning shop/sticky:http'],
    ],
    [
      'may leave its external traffic unmasqueraded',
      withRules('external-6HDZL72K-shop/nodeport/tcp/http', 'goto service-6HDZL72K-shop/nodeport/tcp/http'),
      ['ST211 error shop/nodeport:http node port 30080'],
    ],
    [
      'with endpoints may be refused',
      replaced(/10\.96\.1\.1 \. tcp \. 80 : goto \S+,/, '10.96.1.1 . tcp . 80 : drop,'),
      ['ST213 error shop/web:http cluster IP 10.96.1.1:80'],
    ],
    [
      'with a refusal that nobody reaches is told so',
      replaced(
        'elements = { 10.96.1.14 . tcp',
        'elements = { 10.96.1.1 . tcp . 80 comment "shop/web:http" : goto reject-chain, 10.96.1.14 . tcp',
      ),
      ['ST213 info shop/web:http'],
    ],
    [
      'of a Service without endpoints may hang at an address that is no cluster IP',
      replaced(/203\.0\.113\.15 \. tcp \. 80 comment "shop\/empty-lb:http" : goto reject-chain,\s+/, ''),
      ['ST212 error shop/empty-lb:http load-balancer IP 203.0.113.15:80'],
    ],
    [
      'may have a third-party rule in its chain',
      replaced(
        `\t\tmeta l4proto tcp dnat ip to ${balanced}\n\t}\n\n\tchain external-MS7`,
        `\t\tdnat to 10.9.9.9:80\n\t\tmeta l4proto tcp dnat ip to ${balanced}\n\t}\n\n\tchain external-MS7`,
      ),
      ['ST216 error shop/lb-ranges:http cluster IP 10.96.1.7:80'],
    ],
    [
      'may still answer where the API has it no more',
      replaced('tcp . 30080 : goto', 'tcp . 31999 : goto external-6HDZL72K-shop/nodeport/tcp/http, tcp . 30080 : goto'),
      ['ST205 error shop/nodeport:http'],
    ],
  ])('%s', async (_, change, found) => {
    expect(shortNews(await nftScenario(change))).toEqual(found);
  });

  test('with an endpoint whose hairpin element is missing has ST211, like every other Service of the endpoint', async () => {
    const news = shortNews(await nftScenario(replaced('10.244.11.6 . 10.244.11.6 . tcp . 8080,', '')));
    expect(news).toEqual([
      'ST211 error shop/both-local:http 10.244.11.6:8080',
      'ST211 error shop/internal-local:http 10.244.11.6:8080',
      'ST211 error shop/lb-local:http 10.244.11.6:8080',
      'ST211 error shop/nodeport-local:http 10.244.11.6:8080',
    ]);
  });

  test('with a Local policy may lose the bypass, and the chain that returns the packets is named', async () => {
    const chain = 'external-5C7MGBTD-shop/nodeport-local/tcp/http';
    const whole = await nftScenario(withRules(chain, 'fib saddr type local meta mark set meta mark | 0x00004000'));
    expect(whole.newFindings().map(({code, message}) => `${code} ${message}`)).toContainEqual(
      expect.stringMatching(`^ST207 .*do not get the bypass to all endpoints: ${chain} returns them without an endpoint`),
    );
  });

  test('that was deleted still answers on every node', async () => {
    const whole = await nftScenario();
    whole.deleteService('shop/sticky');
    whole.deleteSlices('shop/sticky');
    expect(shortNews(whole)).toEqual(Array.from({length: 3}, () => 'ST205 error shop/sticky'));
  });
});

test("a node without the affinity that was configured lately remembers nobody, and its rules are no other program's", async () => {
  for (const name of ['shop/web', 'shop/nodeport-local']) {
    const whole = await nftScenario();
    whole.service(name, object => ({...object, spec: {...object.spec, sessionAffinity: 'ClientIP'}}));
    expect(new Set(shortNews(whole))).toEqual(new Set([`ST209 warning ${name}:http`]));
  }
});

describe('before 1.36 endpoints have chains', () => {
  test('one that sends packets elsewhere has a wrong address', async () => {
    const whole = await nftScenario(replaced('dnat to 192.0.2.10:5432', 'dnat to 192.0.2.66:5432'), '1.33');
    expect(shortNews(whole)).toEqual(['ST204 error shop/manual:db 192.0.2.10:5432']);
  });

  test('one that is empty is a broken jump', async () => {
    const whole = await nftScenario(withRules(`endpoint-GXDMGVDY-${web}__10.244.11.4/8080`), '1.33');
    expect(shortNews(whole)).toEqual(['ST214 error shop/web:http 10.244.11.4:8080']);
  });

  test('if a kube-proxy that took over left all of them empty, this is one finding for each family', async () => {
    const whole = await nftScenario(ruleset => ruleset.replace(/(chain endpoint-\S+ \{\n)[^}]*?(\n\t\})/g, '$1$2'), '1.33');
    expect(shortNews(whole)).toEqual(['ST214 error', 'ST214 error IPv6']);
  });

  test('one that does not mark its own connections breaks hairpins', async () => {
    const whole = await nftScenario(
      withRules(`endpoint-GXDMGVDY-${web}__10.244.11.4/8080`, 'meta l4proto tcp dnat to 10.244.11.4:8080'),
      '1.33',
    );
    expect(shortNews(whole)).toEqual(['ST211 error shop/web:http 10.244.11.4:8080']);
  });
});

describe('the base rules', () => {
  test('may lead some packets to Services and not others', async () => {
    const given = await nftScenario(withRules('nat-prerouting', 'meta l4proto udp jump services'), '1.33');
    expect(given.newFindings().map(({code, severity, message}) => ({code, severity, message}))).toEqual([
      {
        ...{code: 'ST301', severity: 'error'},
        message: 'the jump from nat-prerouting to services has other conditions: packets that do not meet them reach no Service',
      },
    ]);
  });

  test.each<[what: string, change: (ruleset: string) => string, found: readonly string[]]>([
    ['without a table holds no rules', replaced(/^table ip kube-proxy \{[\s\S]*?^\}\n/m, ''), ['ST305 error']],
    ['may not be hooked for arriving packets', withRules('nat-prerouting'), ['ST301 error']],
    ['may not be hooked for the node’s own packets', withRules('nat-output'), ['ST301 error']],
    ['may not look for cluster IPs', replaced(/\t\tip daddr \. meta l4proto \. th dport vmap @service-ips\n/, ''), ['ST301 error']],
    [
      'may not look for node ports',
      replaced(/\t\tip daddr @nodeport-ips meta l4proto \. th dport vmap @service-nodeports\n/, ''),
      ['ST304 error'],
    ],
    ['may have lost the node’s address', replaced('elements = { 172.18.0.11 }', 'elements = { 172.18.0.77 }'), ['ST304 error']],
    ['may not masquerade', withRules('nat-postrouting'), ['ST302 error']],
    ['may not honor the mark', replaced(/\t\tmeta mark & .* masquerade fully-random\n/, ''), ['ST302 error']],
    ['may not check source ranges', withRules('filter-prerouting-pre-dnat'), ['ST301 error']],
    ['may not refuse what has no endpoints', withRules('service-endpoints-check'), ['ST301 error']],
    ['may not reject', withRules('reject-chain'), ['ST212 error']],
    ['may not refuse unused ports of cluster IPs', withRules('cluster-ips-check'), ['ST217 warning']],
    [
      'may tell pods in another way than configured',
      ruleset => ruleset.replaceAll(/(?<match>ip saddr(?: !=)? )10\.244\.0\.0\/16/g, '$<match>10.99.0.0/16'),
      ['ST504 warning'],
    ],
    [
      'may mark the wrong traffic to cluster IPs',
      replaced('ip saddr != 10.244.0.0/16 meta mark', 'ip saddr != 10.99.0.0/16 meta mark'),
      ['ST302 warning'],
    ],
    [
      'may have a further base chain whose policy drops everything',
      replaced(
        '\tchain services {\n',
        '\tchain extra {\n\t\ttype filter hook forward priority -200; policy drop;\n\t}\n\n\tchain services {\n',
      ),
      ['ST216 error'],
    ],
    ['may drop everything', replaced('\tchain services {\n', '\tchain services {\n\t\tdrop\n'), ['ST216 error']],
    [
      'may drop one Service',
      replaced('\tchain services {\n', '\tchain services {\n\t\tip daddr 10.96.1.1 tcp dport 80 drop\n'),
      ['ST213 error shop/web:http cluster IP 10.96.1.1:80'],
    ],
    [
      'may take one Service elsewhere',
      replaced('\tchain services {\n', '\tchain services {\n\t\tip daddr 10.96.1.1 tcp dport 80 dnat to 10.9.9.9:80\n'),
      ['ST216 error shop/web:http cluster IP 10.96.1.1:80'],
    ],
    [
      'may take an endpoint for a cluster IP, and refuse what is sent to it',
      replaced('elements = { 10.96.0.1, 10.96.0.10', 'elements = { 10.96.0.1, 10.244.12.6, 10.96.0.10'),
      ['ST213 error shop/sleepy-published:http cluster IP 10.96.1.19:80'],
    ],
    ['may drop a network that holds endpoints', replaced('ip daddr 10.96.0.0/16 drop', 'ip daddr 10.244.0.0/16 drop'), ['ST216 error']],
    [
      'may hold chains that nothing reaches',
      replaced('\tchain reject-chain {', '\tchain service-AAAABBBB-shop/old/tcp/http {\n\t\tdrop\n\t}\n\n\tchain reject-chain {'),
      ['ST215 info'],
    ],
  ])('%s', async (_, change, found) => {
    expect(shortNews(await nftScenario(change))).toEqual(found);
  });
});

describe('the rule about unallocated addresses', () => {
  const cidrs = (...texts: readonly string[]) => ({
    serviceCIDRs: texts.map((text, index) => ({metadata: {name: `range-${index}`}, spec: {cidrs: [text]}})),
  });
  const newsWith = async (ranges: readonly string[], change = (ruleset: string) => ruleset): Promise<readonly string[]> => {
    const given = await nftScenario(change);
    given.api(() => cidrs(...ranges));
    return shortNews(given);
  };

  test('matches the ServiceCIDRs', async () => {
    expect(await newsWith(['10.96.0.0/16', 'fd00:96::/108'])).toEqual([]);
  });

  test('is not compared if the API server lists no ServiceCIDR, since a cluster always has one', async () => {
    expect(await newsWith([])).toEqual([]);
  });

  test('may be older than they are, on each of the three nodes, which affects no Service', async () => {
    expect(await newsWith(['10.96.0.0/16', '10.97.0.0/16', 'fd00:96::/108'])).toEqual(['ST217 info', 'ST217 info', 'ST217 info']);
  });

  test('is missing if they were read, and not expected if they were not', async () => {
    const without = replaced(/\t\tip daddr 10\.96\.0\.0\/16 drop.*\n/, '');
    expect(await newsWith(['10.96.0.0/16', 'fd00:96::/108'], without)).toEqual(['ST217 info']);
    expect(shortNews(await nftScenario(without))).toEqual([]);
  });

  test('is not the fault of kube-proxy if a ServiceCIDR contains endpoints', async () => {
    const given = await nftScenario(replaced('ip daddr 10.96.0.0/16 drop', 'ip daddr 10.244.0.0/16 drop'));
    given.api(() => cidrs('10.244.0.0/16', 'fd00:96::/108'));
    const found = given.findings().filter(({code, severity}) => code === 'ST213' && severity === 'error');
    expect(found.map(({message}) => message)).toEqual([expect.stringContaining('the Service range 10.244.0.0/16, and endpoints')]);
    expect(found[0]?.remedy).toContain('Move the endpoints');
  });
});

describe('third-party tables', () => {
  const chain = (name: string, hook: string, ...rules: readonly string[]): string =>
    `table inet other {\n\tchain ${name} {\n\t\ttype ${hook};\n${rules.map(rule => `\t\t${rule}\n`).join('')}\t}\n}`;

  test.each<[what: string, table: string, found: readonly string[]]>([
    [
      'that intercept a node port',
      chain('pre', 'nat hook prerouting priority -110; policy accept', 'tcp dport 30080 dnat ip to 10.1.1.1:80'),
      ['ST401 error shop/nodeport:http node port 30080'],
    ],
    [
      'that drop one cluster IP',
      chain('pre', 'filter hook prerouting priority -300; policy accept', 'ip daddr 10.96.1.1 tcp dport 80 drop'),
      ['ST402 error shop/web:http cluster IP 10.96.1.1:80'],
    ],
    [
      'whose policy drops what is forwarded',
      chain('fwd', 'filter hook forward priority 0; policy drop', 'ct state established accept'),
      ['ST303 error', 'ST303 error IPv6'],
    ],
    [
      'with an unknown match',
      chain('pre', 'filter hook prerouting priority -300; policy accept', 'osf name "Linux" drop'),
      ['ST403 warning', 'ST403 warning IPv6'],
    ],
    ['that accept on input', chain('in', 'filter hook input priority 0; policy accept', 'tcp dport 22 accept'), []],
    [
      'that masquerade what leaves the cluster',
      chain('post', 'nat hook postrouting priority srcnat; policy accept', 'ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 masquerade'),
      [],
    ],
  ])('%s', async (_, table, found) => {
    expect(shortNews(await nftScenario(inFront(table)))).toEqual(found);
  });
});

describe('legitimate differences stay silent', () => {
  test.each<[what: string, change: (ruleset: string) => string]>([
    [
      'empty chains of endpoints that are gone',
      replaced('\tchain reject-chain {', `\tchain endpoint-GXDMGVDY-${web}__10.244.11.4/8080 {\n\t}\n\n\tchain reject-chain {`),
    ],
    ['clients that are remembered', replaced('timeout 10m\n', 'timeout 10m\n\t\telements = { 10.9.9.1 expires 9m59s996ms }\n')],
    ['no rule for unallocated cluster IPs', replaced(/\t\tip daddr 10\.96\.0\.0\/16 drop.*\n/, '')],
    ['that rule for two networks', replaced('ip daddr 10.96.0.0/16 drop', 'ip daddr { 10.96.0.0/16, 10.112.0.0/16 } drop')],
    ['an address of the node that is gone', replaced('elements = { 172.18.0.11 }', 'elements = { 172.18.0.11, 172.18.0.77 }')],
    [
      'chains that an upgrade left',
      replaced(
        '\tchain nat-output {',
        '\tchain filter-prerouting {\n\t\ttype filter hook prerouting priority dstnat - 10; policy accept;\n\t\tct state new jump firewall-check\n\t}\n\n\tchain mark-for-masquerade {\n\t\tmeta mark set meta mark | 0x00004000\n\t}\n\n\tchain nat-output {',
      ),
    ],
    ['a ruleset without comments', ruleset => ruleset.replace(/ comment "[^"]*"/g, '').replace(/\t+comment "[^"]*"\n/g, '')],
  ])('%s', async (_, change) => {
    expect(shortNews(await nftScenario(change))).toEqual([]);
  });

  test('only one of two Services that claim an address has it, whichever it is', async () => {
    const whole = await nftScenario();
    whole.service('shop/lb-no-nodeport', service => ({...service, status: {loadBalancer: {ingress: [{ip: '203.0.113.10'}]}}}));
    const found = shortNews(whole).filter(text => !text.includes('lb-no-nodeport'));
    expect(found).toEqual([]);
  });
});

describe('a kube-proxy that does not know its zone', () => {
  test('is one finding, as in every mode', async () => {
    const all = 'numgen random mod 3 map { 0 : 10.244.11.4 . 8080, 1 : 10.244.11.5 . 8080, 2 : 10.244.12.4 . 8080 }';
    const whole = await nftScenario(withRules('service-WMVSO7CT-shop/zonal/tcp/http', `meta l4proto tcp dnat ip to ${all}`));
    expect(shortNews(whole)).toEqual(['ST509 warning']);
  });
});

describe('the usual third-party tables need no action', () => {
  const flannel = `table ip flannel-ipv4 {
	chain forward {
		type filter hook forward priority filter; policy accept;
		ip saddr 10.244.0.0/16 accept
		ip daddr 10.244.0.0/16 accept
	}
	chain postrtg {
		type nat hook postrouting priority srcnat; policy accept;
		meta mark & 0x00004000 == 0x00004000 return
		ip saddr 10.244.11.0/24 ip daddr 10.244.0.0/16 return
		ip saddr 10.244.0.0/16 ip daddr 10.244.11.0/24 return
		ip saddr != 10.244.11.0/24 ip daddr 10.244.0.0/16 return
		ip saddr 10.244.0.0/16 ip daddr != 224.0.0.0/4 masquerade fully-random
		ip saddr != 10.244.0.0/16 ip daddr 10.244.0.0/16 masquerade fully-random
	}
}`;
  const firewalld = `table inet firewalld {
	chain filter_INPUT {
		type filter hook input priority filter + 10; policy accept;
		ct state { established, related } accept
		ct status dnat accept
		iifname "lo" accept
		ct state invalid drop
		jump filter_INPUT_ZONES
		reject with icmpx admin-prohibited
	}
	chain filter_FORWARD {
		type filter hook forward priority filter + 10; policy accept;
		ct state { established, related } accept
		ct status dnat accept
		iifname "lo" accept
		ct state invalid drop
		jump filter_FORWARD_ZONES
		reject with icmpx admin-prohibited
	}
	chain filter_INPUT_ZONES {
		ip saddr { 10.244.0.0/16, 172.18.0.0/16, 198.18.0.0/15 } accept
	}
	chain filter_FORWARD_ZONES {
		ip saddr 10.244.0.0/16 accept
		ip6 saddr fd00::/8 accept
	}
}`;
  const calico = `table ip calico {
	map filter-cali-fw-dispatch {
		type ifname : verdict
		elements = { "cali1234567890a" : goto filter-cali-fw-cali1234567890a }
	}
	chain filter-FORWARD {
		type filter hook forward priority filter; policy accept;
		counter jump filter-cali-FORWARD
	}
	chain filter-cali-FORWARD {
		meta mark & 0x00010000 == 0x00010000 counter accept
		iifname "cali*" counter jump filter-cali-from-wl-dispatch
		oifname "cali*" counter jump filter-cali-to-wl-dispatch
	}
	chain filter-cali-from-wl-dispatch {
		iifname vmap @filter-cali-fw-dispatch
		counter drop
	}
	chain filter-cali-fw-cali1234567890a {
		ct state invalid counter drop
		counter drop
	}
	chain filter-cali-to-wl-dispatch {
		counter drop
	}
	chain nat-POSTROUTING {
		type nat hook postrouting priority srcnat; policy accept;
		ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 counter masquerade fully-random
	}
}`;
  const policies = `table inet kindnet-network-policies {
	set podips-v4 {
		type ipv4_addr
		elements = { 10.244.11.4 }
	}
	chain postrouting {
		type filter hook postrouting priority srcnat - 5; policy accept;
		ct state established,related accept
		ip daddr @podips-v4 queue flags bypass to 102
	}
}`;
  test.each(Object.entries({flannel, firewalld, calico, policies}))('%s', async (_, table) => {
    expect(shortNews(await nftScenario(inFront(table))).filter(text => !text.includes(' info'))).toEqual([]);
  });
});

describe('chains outside the path of a walk', () => {
  test('of ARP are reported as not evaluated if they drop', async () => {
    const guard =
      'table arp guard {\n\tchain in {\n\t\ttype filter hook input priority 0; policy accept;\n\t\tarp operation request drop\n\t}\n}';
    expect(shortNews(await nftScenario(inFront(guard)))).toEqual(['ST403 info']);
  });

  test('of bridges that drop are reported if the links of the node were not read, and not if it has no bridge', async () => {
    const guard = 'table bridge guard {\n\tchain fwd {\n\t\ttype filter hook forward priority 0; policy drop;\n\t}\n}';
    const node = await nftScenario(inFront(guard));
    expect(shortNews(node)).toEqual([]);
    node.file('node-a', 'addresses.json', null);
    const found = node.findings().filter(({code}) => code === 'ST403');
    expect(found.map(({severity, message}) => `${severity}: ${message}`)).toEqual([
      expect.stringMatching(/^info: a policy of table bridge guard drops frames on bridges, .* packets that pass a bridge is undetermined/),
    ]);
  });

  test('are walked where they are those of an interface', async () => {
    const guard =
      'table netdev guard {\n\tchain in {\n\t\ttype filter hook ingress device "eth0" priority 0; policy accept;\n\t\tip saddr 198.51.100.0/24 drop\n\t}\n}';
    expect(shortNews(await nftScenario(inFront(guard)))).toEqual(['ST402 info']);
  });

  test('are not reported if they accept everything', async () => {
    const counting = 'table bridge count {\n\tchain fwd {\n\t\ttype filter hook forward priority 0; policy accept;\n\t\tcounter\n\t}\n}';
    expect(shortNews(await nftScenario(inFront(counting)))).toEqual([]);
  });
});

describe('a truncated dump', () => {
  test('leaves the node unread, and no rule is reported as missing', async () => {
    const whole = await nftScenario(ruleset => ruleset.slice(0, 9000));
    expect(shortNews(whole)).toEqual(['ST506 warning']);
    expect(diagnose(whole.snapshot(), {toolVersion: '0'}).nodes[0]).toMatchObject({name: 'node-a', status: 'unread'});
  });

  test('is evaluated up to its end, in its own table and in those before it', async () => {
    const lacks = ofWeb('numgen random mod 2 map { 0 : 10.244.11.4 . 8080, 1 : 10.244.12.4 . 8080 }');
    const until = (text: string) => (ruleset: string) => ruleset.slice(0, ruleset.indexOf(text));
    const found = ['ST202 error shop/web:http 10.244.11.5:8080', 'ST506 warning'];
    expect(shortNews(await nftScenario(ruleset => until('table ip6 kube-proxy')(lacks(ruleset)).slice(0, -20)))).toEqual(found);
    expect(shortNews(await nftScenario(ruleset => `${lacks(ruleset)}table inet other {\n\tchain `))).toEqual(found);
  });

  test('does not affect what another dump shows of kube-proxy’s tables', async () => {
    const whole = await nftScenario(replaced(/10\.96\.1\.1 \. tcp \. 80 : goto \S+,\s+/, ''));
    const drops =
      'table inet other {\n\tchain pre {\n\t\ttype filter hook prerouting priority -300;\n\t\tip daddr 10.96.1.4 tcp dport 80 drop\n\t}\n}\n';
    whole.file('node-a', 'nft-ruleset.json', `${drops}table ip kube-proxy {\n\tset cluster-ips {\n`);
    const name = whole.snapshot().api.services?.find(({spec}) => spec?.clusterIP === '10.96.1.4')?.metadata.name;
    expect(shortNews(whole)).toEqual([
      'ST201 error shop/web:http',
      expect.stringMatching(new RegExp(`^ST402 error shop/${name}:\\S* cluster IP 10\\.96\\.1\\.4:80$`)),
      'ST506 warning',
    ]);
  });
});
