import {describe, expect, test} from 'vitest';
import {parseArguments, parseConfigFile, parseConfigz} from '../../src/parse/kube-proxy/kube-proxy-config.ts';
import {redactArguments, redactConfigText, redactConfigz} from '../../src/redact/redact-config.ts';
import {redactFile} from '../../src/redact/redact-file.ts';
import {Redaction} from '../../src/redact/redaction.ts';
import {Replacements} from '../../src/redact/replacements.ts';

const replacements = new Replacements('key');
const node = replacements.names.replace('node-a', 'node');
const network = replacements.addresses.replace('203.0.113.0/24') ?? '';

describe('settings of kube-proxy', () => {
  const config = {mode: 'ipvs', hostnameOverride: 'Node-A', clusterCIDR: '10.244.0.0/16,203.0.113.0/24', bindAddress: '0.0.0.0'};
  const expected = {mode: 'ipvs', hostnameOverride: node, clusterCIDRs: ['10.244.0.0/16', network], bindAddress: '0.0.0.0'};

  test('in a file keep the values that a diagnosis needs', () => {
    const text = redactConfigText(
      `# for acme\n${JSON.stringify({...config, clientConnection: {kubeconfig: '/home/acme/config'}})}`,
      replacements,
    );
    expect(parseConfigFile(text)).toMatchObject(expected);
    expect(text).not.toMatch(/acme|node-a/i);
  });

  test.each([
    ['a: &a [x,x,x,x,x,x,x,x,x]', ...'bcdefghij']
      .map((line, at) =>
        at === 0
          ? line
          : `${line}: &${line} [${Array(9)
              .fill(`*${'abcdefghij'[at - 1]}`)
              .join()}]`,
      )
      .join('\n'),
    'a: &a [*a, {b: *a}]',
  ])('that stand for a value without end are left out: %j', text => {
    expect(redactConfigText(text, replacements)).toBe('{redacted: [');
    expect(() => parseConfigFile(text)).toThrow();
  });

  test('in /configz are redacted like those in a file', () => {
    expect(parseConfigz(redactConfigz(JSON.stringify({'kubeproxy.config.k8s.io': config}), replacements))).toMatchObject(expected);
  });

  test.each([
    ['flags', ['--hostname-override=node-a', '--cluster-cidr=10.244.0.0/16,203.0.113.0/24', '--proxy-mode=ipvs', '--bind-address=0.0.0.0']],
    [
      'flags and values apart',
      [
        '--hostname-override',
        'node-a',
        '--cluster-cidr',
        '10.244.0.0/16,203.0.113.0/24',
        '--proxy-mode',
        'ipvs',
        '--bind-address',
        '0.0.0.0',
      ],
    ],
    [
      'a script',
      [
        'exec /opt/acme/kube-proxy --hostname-override="node-a" --cluster-cidr=10.244.0.0/16,203.0.113.0/24 --proxy-mode=ipvs --bind-address=0.0.0.0 1>>/var/log/acme.log 2>&1',
      ],
    ],
  ])('on a command line: %s', (_, args) => {
    const fresh = redactArguments(args, replacements);
    expect(parseArguments(fresh)).toMatchObject(expected);
    expect(fresh.join(' ')).not.toMatch(/acme|node-a\b|203\.0\.113/);
  });

  test('that name a variable are kept', () => {
    expect(redactArguments(['--hostname-override=$(NODE_NAME)', '--masquerade-all', '--config=/etc/acme.conf'], replacements)).toEqual([
      '--hostname-override=$(NODE_NAME)',
      '--masquerade-all',
      expect.stringMatching(/^--config=name-/),
    ]);
  });
});

describe('an unreadable file', () => {
  test.each(['configz.json', 'kube-proxy-config.yaml', 'addresses.json', 'healthz.json'])('%s stays unreadable', file => {
    const text = redactFile(file, Buffer.from('{"acme": [secret'), replacements)?.toString() ?? '';
    expect(text).not.toContain('acme');
    expect(() => JSON.parse(text)).toThrow(SyntaxError);
    expect(() => parseConfigFile(text)).toThrow();
  });

  test.each(['proxy-mode', 'kube-proxy-version', 'iptables-version'])('%s contains no other text', file => {
    expect(redactFile(file, Buffer.from('acme\n'), replacements)?.toString()).toBe('redacted\n');
  });

  test('unknown files are not kept', () => {
    expect(redactFile('notes.txt', Buffer.from('acme'), replacements)).toBe(null);
    expect(redactFile('constructor', Buffer.from('acme'), replacements)).toBe(null);
  });
});

test('metrics keep their families and versions, and lose identifying labels', () => {
  const text =
    'kubeproxy_sync_proxy_rules_iptables_last{ip_family="IPv4",node="node-a"} 1\nkubernetes_build_info{git_version="v1.33.2"} 1\n';
  expect(redactFile('metrics', Buffer.from(text), replacements)?.toString()).toBe(text.replace('node-a', node));
});

test('ipsets keep their form, and lose names, comments and public addresses', () => {
  const text =
    'create acme hash:ip,port family inet hashsize 1024\nadd acme 203.0.113.0/24,tcp:80 timeout 30 comment "shop/web:http"\nadd KUBE-NODE-PORT-TCP 30080\n';
  expect(redactFile('ipset-save', Buffer.from(text), replacements)?.toString()).toMatch(
    new RegExp(
      `^create (set-\\w+) hash:ip,port family inet hashsize 1024\\nadd \\1 ${network},tcp:80 timeout 30 comment "ns-\\w+/svc-\\w+:http"\\nadd KUBE-NODE-PORT-TCP 30080\\n$`,
    ),
  );
});

describe('messages', () => {
  const redaction = new Redaction('key');
  const metadata = {name: 'kube-proxy-x7k2p', namespace: 'kube-system'};
  redaction.objects({
    services: null,
    endpointSlices: null,
    endpoints: null,
    nodes: [{metadata: {name: 'node-a'}}],
    pods: [{metadata}],
    configMaps: null,
  });

  test.each([
    [
      'exec into kube-system/kube-proxy-x7k2p: iptables-save: not found',
      /^exec into kube-system\/kube-proxy-[a-z2-7]{10}: iptables-save: not found$/,
    ],
    [
      'connect to api.acme.example:6443 (203.0.113.9) refused',
      /^connect to name-\w+\.name-\w+\.name-\w+:6443 \((?!203\.0\.113)[\d.]+\) refused$/,
    ],
    [
      'nodes/node-a/addresses.json is not what "ip -j addr" prints',
      /^nodes\/node-[a-z2-7]{10}\/addresses\.json is not what "ip -j addr" prints$/,
    ],
    [
      'api/services.json: item 3 is left out: its spec.ports[0].port is not a number',
      /^api\/services\.json: item 3 is left out: its spec\.ports\[0\]\.port is not a number$/,
    ],
  ])('%s', (message, expected) => {
    expect(redaction.problem({message}).message).toMatch(expected);
  });

  test.each([
    [
      'pods is forbidden: User "planted" cannot list resource "pods" in API group "" at the cluster scope',
      'pods is forbidden: User "…" cannot list resource "pods" in API group "" at the cluster scope',
    ],
    [
      'services is forbidden: User "system:serviceaccount:planted:robot" cannot list resource "services" in the namespace "planted": RBAC: role.rbac.authorization.k8s.io "planted" not found',
      'services is forbidden: User "…" cannot list resource "services" in the namespace "…": RBAC: role.rbac.authorization.k8s.io "…" not found',
    ],
    ['ssh: planted@bastion: Permission denied (publickey,password).', 'ssh: …: Permission denied (publickey,password).'],
    [
      'Warning: Identity file /home/planted/.ssh/id_planted not accessible: No such file or directory.',
      'Warning: Identity file /…/.ssh/… not accessible: No such file or directory.',
    ],
    [
      'tls: failed to verify certificate: x509: certificate is valid for planted, kubernetes, not planted-2; issuer: CN=planted CA,O=planted',
      'tls: failed to verify certificate: x509: certificate is valid for …, kubernetes, not …; issuer: … CA,O=…',
    ],
    ['Run kubectl svc-trace access --context planted --as planted --as-group=planted', 'Run kubectl svc-trace access --context … --as …'],
    [
      'oidc: the token of oidc:planted#4711 in [planted:admins Planted] for account 123456789012 expired',
      'oidc: the token of oidc:…#4711 in […] for account … expired',
    ],
    ['it did not answer within 10s (--node-timeout 10s): v1.36.2', 'it did not answer within 10s (--node-timeout 10s): v1.36.2'],
  ])('names of users, groups, hosts, contexts and paths do not survive: %s', (message, expected) => {
    expect(redaction.message(message)).toBe(expected);
  });
});

describe('nftables', () => {
  const redactNft = (objects: readonly object[]) =>
    JSON.parse(redactFile('nft.json', Buffer.from(JSON.stringify({nftables: objects})), replacements)?.toString() ?? '').nftables;

  test('names of chains are derived from the new names, and jumps follow', () => {
    const name = 'endpoint-PYVDIVAD-acme/web/tcp/http__203.0.113.9/80';
    const [{chain}, {rule}] = redactNft([
      {chain: {family: 'ip', table: 'kube-proxy', name}},
      {rule: {family: 'ip', table: 'kube-proxy', chain: 'services', expr: [{goto: {target: name}}]}},
    ]);
    expect(chain.name).toMatch(/^endpoint-[A-Z2-7]{8}-ns-\w+\/svc-\w+\/tcp\/http__(?!203\.0\.113)[\d.]+\/80$/);
    expect(rule.expr[0].goto.target).toBe(chain.name);
  });

  test('a range of public addresses is replaced by the networks that it covers', () => {
    const range = {range: ['203.0.113.0', '203.0.114.255']};
    const [{rule}] = redactNft([
      {
        rule: {
          family: 'ip',
          table: 'kube-proxy',
          chain: 'firewall-x',
          expr: [
            {match: {op: '!=', left: {payload: {field: 'saddr'}}, right: {set: [range, '10.0.0.1', {range: ['10.0.0.5', '10.0.0.9']}]}}},
          ],
        },
      },
    ]);
    const second = replacements.addresses.replace('203.0.114.0/24') ?? '';
    const prefix = (text: string) => ({prefix: {addr: text.split('/')[0], len: 24}});
    expect(rule.expr[0].match.right.set).toEqual([prefix(network), prefix(second), '10.0.0.1', {range: ['10.0.0.5', '10.0.0.9']}]);
  });

  test('endpoints with public addresses are sorted again', () => {
    const addresses = ['5.9.0.1', '5.9.0.2', '5.9.0.3', '5.9.0.4', '5.9.0.5'];
    const data = {set: addresses.map((address, number) => [number, {concat: [address, 80]}])};
    const [{rule}] = redactNft([
      {
        rule: {
          family: 'ip',
          table: 'kube-proxy',
          chain: 'service-x',
          expr: [{dnat: {family: 'ip', addr: {map: {key: {numgen: {mode: 'random', mod: 5}}, data}}}}],
        },
      },
    ]);
    const fresh = rule.expr[0].dnat.addr.map.data.set;
    const ordered = addresses.map(address => `${replacements.addresses.replace(address)}:80`).sort();
    expect(fresh.map(([, {concat}]: [number, {concat: unknown[]}]) => concat.join(':'))).toEqual(ordered);
    expect(fresh.map(([number]: [number]) => number)).toEqual([0, 1, 2, 3, 4]);
  });

  test('the text form is redacted like the JSON form', () => {
    const text = 'elements = { 203.0.113.9 . tcp . 80 comment "acme/web:http" : goto service-2QRHZV4L-acme/web/tcp/http }\niifname "eth0"';
    expect(redactFile('nft.json', Buffer.from(text), replacements)?.toString()).toMatch(
      /^elements = \{ (?!203\.0\.113)[\d.]+ \. tcp \. 80 comment "ns-\w+\/svc-\w+:http" : goto service-[A-Z2-7]{8}-ns-\w+\/svc-\w+\/tcp\/http \}\niifname "eth0"$/,
    );
  });
});

test('an anonymous set of addresses keeps the order that nft lists it in', () => {
  const ranges = ['100.0.1.0/24', '150.0.2.0/24', '203.0.113.0/24', '212.0.0.0/16', '9.9.9.9/32'].sort(
    (a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10),
  );
  for (const key of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j']) {
    const other = new Replacements(key);
    const set = ranges.map(text => ({prefix: {addr: text.split('/')[0], len: Number(text.split('/')[1])}}));
    const rule = {rule: {table: 'kube-proxy', expr: [{match: {right: {set}}}]}};
    const read = redactFile('nft.json', Buffer.from(JSON.stringify({nftables: [rule]})), other)?.toString() ?? '';
    const values = [...read.matchAll(/(\d+)\.(\d+)\.(\d+)\.(\d+)/g)].map(([, ...bytes]) =>
      bytes.reduce((sum, byte) => sum * 256 + Number(byte), 0),
    );
    expect(values).toHaveLength(5);
    expect(values).toEqual(values.toSorted((a, b) => a - b));
  }
});

test('the JSON form of nft keeps no name of a counter, a helper, a user, a group or a control group', () => {
  const match = (left: object, right: unknown) => ({match: {op: '==', left, right}});
  const expr = [
    match({meta: {key: 'skuid'}}, 'planted'),
    match({meta: {key: 'skgid'}}, {set: ['planted', {range: ['planted', 70]}]}),
    match({socket: {key: 'cgroupv2', level: 2}}, 'planted.slice/planted'),
    match({ct: {key: 'label'}}, 'planted'),
    match({meta: {key: 'iifname'}}, 'eth0'),
    {counter: 'planted'},
    {'ct helper': 'planted'},
    {quota: 'planted'},
  ];
  const objects = [
    {counter: {family: 'inet', name: 'planted', table: 'planted'}},
    {rule: {family: 'inet', table: 'planted', chain: 'planted', expr}},
  ];
  const redacted = redactFile('nft.json', Buffer.from(JSON.stringify({nftables: objects})), replacements)?.toString() ?? '';
  expect(redacted).not.toMatch(/planted/);
  expect(redacted).toContain('"iifname"}},"right":"eth0"');
});

test('the JSON form of nft keeps no word of fields beside those that are known', () => {
  const odd = {op: 'secret1', left: {meta: {key: 'mark'}}, right: 5, secret2: 'secret3'};
  const expr = [
    {match: odd},
    {match: {op: '==', left: {meta: {key: 'skuid'}}, right: {secret4: 'secret5'}}},
    {match: {op: 'in', left: {prefix: {addr: 'secret6', len: 'secret7'}, secret8: 1}, right: {prefix: {addr: '10.0.0.0', len: 8}}}},
    {vmap: {key: {numgen: {mode: 'random', mod: 1}}, data: {set: [[0, {accept: null}]]}, secret9: 'secret0'}},
  ];
  const redacted = redactFile('nft.json', Buffer.from(JSON.stringify({nftables: [{rule: {expr}}]})), replacements)?.toString() ?? '';
  expect(redacted).not.toContain('secret');
  expect(redacted).toContain('{"op":"==","left":{"meta":{"key":"skuid"}}');
});

test('the text form of nft keeps no name of a table, a chain, a set, a counter, a user or a group', () => {
  const text = [
    'table inet planted {',
    '\tcounter planted-hits {',
    '\tset planted_banned {',
    '\tchain planted-in {',
    '\t\ttype filter hook input priority filter; policy accept;',
    '\t\tip saddr @planted_banned counter name "planted-hits" drop',
    '\t\tmeta skuid "planted" ct helper set "planted-ftp" jump planted-sub comment "planted"',
    '\t\tsocket cgroupv2 level 2 "planted.slice" goto planted-sub',
    '\t\ttcp dport vmap { 80 : jump planted-sub, 443 : goto planted-sub }',
    'table ip kube-proxy {',
    '\tchain services {',
    '\t\tip daddr . meta l4proto . th dport vmap @service-ips',
    '\t\tjump firewall-check',
    '\t\tjump planted-chain',
  ].join('\n');
  const redacted = redactFile('nft.txt', Buffer.from(text), replacements)?.toString() ?? '';
  expect(redacted).not.toMatch(/planted/i);
  expect(redacted).toContain('chain services {\n\t\tip daddr . meta l4proto . th dport vmap @service-ips\n\t\tjump firewall-check\n');
  const [, set] = /set (\S+) \{/.exec(redacted) ?? [];
  expect(redacted).toContain(`ip saddr @${set} counter name`);
});

describe('what the kernel holds beside rules', () => {
  const redacted = (file: string, value: unknown): string =>
    redactFile(file, Buffer.from(JSON.stringify(value)), replacements)?.toString() ?? '';

  test('routes keep their interfaces and their form, without public addresses and names of tables', () => {
    const text = redacted('routes.json', [
      {dst: 'default', gateway: '203.0.113.1', dev: 'eth0', table: 'acme-isp', comment: 'acme'},
      {dst: '203.0.113.0/24', dev: 'eth0', nexthops: [{via: {family: 'inet', host: '203.0.113.9'}, dev: 'eth1'}], flags: []},
      {type: 'local', dst: '10.244.1.1', dev: 'cni0', table: 'local'},
    ]);
    expect(JSON.parse(text)).toEqual([
      {dst: 'default', gateway: expect.any(String) as string, dev: 'eth0', table: replacements.names.replace('acme-isp')},
      {
        ...{dst: network, dev: 'eth0', flags: []},
        nexthops: [{via: {family: 'inet', host: expect.any(String) as string}, dev: 'eth1'}],
      },
      {type: 'local', dst: '10.244.1.1', dev: 'cni0', table: 'local'},
    ]);
    expect(text).not.toMatch(/acme|203\.0\.113\./);
  });

  test('policy rules, sysctls and counts of connections stay, addresses aside', () => {
    const rules = redacted('ip-rules.json', [
      {priority: 9, src: '203.0.113.0', srclen: 24, fwmark: '0x10', table: '100'},
      {priority: 10, src: 'all'},
    ]);
    expect(JSON.parse(rules)).toEqual([
      {priority: 9, src: replacements.addresses.replace('203.0.113.0'), srclen: 24, fwmark: '0x10', table: '100'},
      {priority: 10, src: 'all'},
    ]);
    const sysctls = 'net.ipv4.ip_local_port_range = 32768\t60999\nnet.ipv4.ip_local_reserved_ports = 30000-32767,8080\n';
    expect(redactFile('sysctls', Buffer.from(sysctls), replacements)?.toString()).toBe(sysctls);
    const counts = 'cpu=0   \tfound=0 insert_failed=3 drop=0\n';
    expect(redactFile('conntrack-stats', Buffer.from(counts), replacements)?.toString()).toBe(counts);
  });
});
