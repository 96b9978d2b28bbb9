import {mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {basename, dirname, join} from 'node:path';
import * as kubernetes from '@kubernetes/client-node';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {captureGroups, captureNames, fixture, readFixture} from '../fixtures.ts';
import {CiliumTables} from '../cilium-node.ts';
import {objectTreatments} from '../../src/redact/object-treatments.ts';
import {redactConfigz} from '../../src/redact/redact-config.ts';
import {Replacements, treat} from '../../src/redact/replacements.ts';
import {svcTrace} from '../svc-trace.ts';

/** A word that is in no fixture and in no list of known words. */
const word = 'wombatgrove';

/** The word in base64, wherever it begins in the encoded text. */
const encoded = [0, 1, 2].map(before => {
  const text = Buffer.from('\0'.repeat(before) + word).toString('base64');
  return text.slice(before === 0 ? 0 : before + 1, -4);
});

const contains = (text: string): boolean => text.toLowerCase().includes(word) || encoded.some(form => text.includes(form));

const folders = [mkdtempSync(join(tmpdir(), 'svc-trace-walk-'))];
afterAll(() => {
  for (const folder of folders) rmSync(folder, {recursive: true});
});

/** All fixtures whose names match, those that captures share included. */
function texts(name: RegExp): readonly string[] {
  const below = (folder: string) => readdirSync(fixture(folder), {recursive: true, encoding: 'utf8'}).map(path => join(folder, path));
  const captures = captureNames(...captureGroups).flatMap(capture => below(`captures/${capture}`));
  return [...below('').filter(path => !path.startsWith('captures/')), ...captures]
    .map(path => path.replace(/\.diff$/, ''))
    .filter(path => name.test(path))
    .sort()
    .map(path => readFixture(path).toString());
}

/** The lines of dumps, one of each form: lines that differ in numbers, names of chains and quoted texts only are of one form. */
function formsOf(dumps: readonly string[]): readonly string[] {
  const seen = new Set<string>();
  return dumps.flatMap(dump => {
    let context = '';
    return dump.split('\n').filter(line => {
      if (/^(?:table |\*)/.test(line)) context = line;
      const form = `${context}${line
        .replace(/"[^"]*"/g, '""')
        .replace(/-[A-Z2-7]{8,16}-?\S*/g, 'H')
        .replace(/[\da-f.:/]*\d[\da-f.:/]*/g, '0')}`;
      const isNew = !seen.has(form) || line === context;
      seen.add(form);
      return isNew;
    });
  });
}

const plants: readonly ((token: string) => string)[] = [
  () => word,
  () => `"${word} ${word.toUpperCase()}"`,
  token => `${token}-${word}`,
  token => `${token.replace(/[=:,].*$/s, match => match[0] ?? '')}${word[0]?.toUpperCase()}${word.slice(1)}`,
  () => encoded[0] ?? '',
];

/** The same lines many times, for each way to plant the word; each time another token of each line is replaced. */
function* plantedIn(lines: readonly string[]): Iterable<string> {
  const tokens = lines.map(line => [...line.matchAll(/[^\s"]+/g)]);
  const most = tokens.reduce((longest, {length}) => Math.max(longest, length), 0);
  for (const plant of plants) {
    const planted = (index: number, place: number): readonly string[] => {
      const [line = '', token] = [lines[index], tokens[index]?.[place]];
      return token === undefined ? [] : [line.slice(0, token.index) + plant(token[0]) + line.slice(token.index + token[0].length)];
    };
    const all = Array.from({length: most}, (_, place) =>
      lines.flatMap((line, index) => (isContext(line) ? [line] : planted(index, place))),
    );
    const contexts = lines.flatMap((line, index) =>
      isContext(line) ? Array.from(tokens[index] ?? [], (_, place) => planted(index, place)).flat() : [],
    );
    yield [...all.flat(), ...contexts].join('\n');
  }
}

/** Lines that others are read by. */
const isContext = (line: string): boolean => /^(?:table |\*|create .* list:set)/.test(line);

type Json = null | string | number | boolean | readonly Json[] | {readonly [key: string]: Json};

const values: readonly Json[] = [word, `/${word}/Wombat${word}:8080`, [word], {[word]: word}, encoded[0] ?? ''];

/** The documents with the word in place of one value or key, for each path of fields that is in one of them. */
function plantedDocuments(documents: readonly Json[]): readonly Json[] {
  const seen = new Set<string>();
  return documents.flatMap(document => [...variants(document, '', seen)]);
}

function* variants(value: Json, path: string, seen: Set<string>): Iterable<Json> {
  const isNew = !seen.has(`${path} ${typeof value}`);
  seen.add(`${path} ${typeof value}`);
  if (isNew) yield* values;
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    const list = value as readonly Json[];
    for (const [index, item] of list.entries()) for (const fresh of variants(item, `${path}[]`, seen)) yield list.with(index, fresh);
    return;
  }
  const fields = value as {readonly [key: string]: Json};
  for (const [key, part] of Object.entries(fields)) {
    const {[key]: _, ...others} = fields;
    if (!seen.has(`${path}.${key} key`)) {
      seen.add(`${path}.${key} key`);
      yield {...others, [word]: part};
      yield {...others, [`${key}-${word}`]: part};
    }
    for (const fresh of variants(part, `${path}.${key}`, seen)) yield {...fields, [key]: fresh};
  }
}

/** An object with the word in each field that its type has. */
function objectOf(type: string, depth = 0): Json {
  const list = /^Array<(.*)>$/.exec(type)?.[1];
  if (list !== undefined) return [objectOf(list, depth)];
  if (type.startsWith('{')) return {[word]: word, 'kubernetes.io/service-name': word, [`${word}.kubernetes.io/${word}`]: word};
  const model = (kubernetes as unknown as Readonly<Record<string, {getAttributeTypeMap?: () => readonly Attribute[]}>>)[type];
  if (type === 'number' || type === 'boolean') return type === 'number' ? 80 : true;
  if (model?.getAttributeTypeMap === undefined || depth > 9) return word;
  return Object.fromEntries(model.getAttributeTypeMap().map(({baseName, type: own}) => [baseName, objectOf(own, depth + 1)]));
}

interface Attribute {
  readonly baseName: string;
  readonly type: string;
}

const kinds = {
  services: 'V1Service',
  endpointslices: 'V1EndpointSlice',
  endpoints: 'V1Endpoints',
  nodes: 'V1Node',
  pods: 'V1Pod',
  configmaps: 'V1ConfigMap',
  servicecidrs: 'V1ServiceCIDR',
  networkpolicies: 'V1NetworkPolicy',
};

/** Of the pods, only the image and the command line of those of kube-proxy are kept. */
const kubeProxyPod: Json = {
  metadata: {name: `kube-proxy-${word}`, namespace: 'kube-system', labels: {'k8s-app': 'kube-proxy'}},
  spec: {
    nodeName: `${word}-0`,
    containers: [
      {
        ...{name: `kube-proxy-${word}`, image: `${word}.example/${word}/kube-proxy-${word}:v1.33.2-${word}`},
        command: ['/opt/wombatgrove/kube-proxy', `--${word}=${word}`, '--proxy-mode', word, `--feature-gates=${word}=true,A=${word}`],
        args: [
          `exec kube-proxy --detect-local-mode=${word} --pod-bridge-interface ${word} "--bind-address=${word}"`,
          word,
          `kube-proxy-arg=${word}=1`,
        ],
      },
    ],
  },
};

const links: readonly Json[] = [
  {
    ...{
      ifindex: 4,
      ifname: 'vxlan.calico',
      flags: ['BROADCAST', 'UP'],
      mtu: 1450,
      qdisc: 'noqueue',
      operstate: 'UNKNOWN',
      linkmode: 'DEFAULT',
    },
    ...{group: 'default', txqlen: 1000, link_type: 'ether', address: '66:4b:f1:00:00:01', broadcast: 'ff:ff:ff:ff:ff:ff', master: 'br0'},
    ...{link: 'eth0', link_index: 2, link_netnsid: 0, promiscuity: 0, permaddr: '66:4b:f1:00:00:02', altnames: ['enp0s3'], ifalias: 'x'},
    linkinfo: {
      ...{info_kind: 'vxlan', info_slave_kind: 'bridge', info_slave_data: {state: 'forwarding', hairpin: true}},
      info_data: {id: 4096, port: 4789, link: 'eth0', local: '10.0.0.1', group: '239.0.0.1', learning: true, protocol: '802.1Q'},
    },
  },
];
const routes: readonly Json[] = [
  {type: 'local', dst: 'default', gateway: '10.0.0.1', dev: 'eth0', table: 'main', protocol: 'kernel', scope: 'link', prefsrc: '10.0.0.2'},
  {
    dst: '10.1.0.0/16',
    from: '10.0.0.0/8',
    metric: 20,
    pref: 'medium',
    tos: '0x10',
    nhid: 4,
    flags: ['onlink'],
    via: {family: 'inet', host: '::1'},
  },
  {dst: '10.2.0.0/16', nexthops: [{gateway: '10.0.0.3', dev: 'eth1', weight: 1, flags: [], via: {family: 'inet6', host: '::1'}}]},
];
const policyRules: readonly Json[] = [
  {
    priority: 9,
    not: null,
    src: '10.0.0.0',
    srclen: 8,
    dst: 'all',
    dstlen: 8,
    fwmark: '0x1',
    fwmask: '0xff',
    iif: 'eth0',
    oif: 'eth1',
    tos: '0',
  },
  {
    ipproto: 'tcp',
    sport: 1,
    sport_start: 1,
    sport_end: 2,
    dport: 80,
    dport_start: 1,
    dport_end: 3,
    uid_start: 0,
    uid_end: 9,
    goto: 5,
    nop: null,
  },
  {l3mdev: null, table: 'main', suppress_prefixlen: 0, suppress_ifgroup: 'x', action: 'blackhole', protocol: 'kernel', iif_detached: null},
];
const connectionCounts = [
  'cpu=0 \tfound=2 invalid=0 insert=0 insert_failed=0 drop=0 early_drop=0 error=0 search_restart=0 clash_resolve=0',
];

const tablesOfCilium = new CiliumTables().writeMap().printed();

/** The files of nodes, planted: each is a list of contents. */
function plantedFiles(): Readonly<Record<string, readonly string[]>> {
  const linesOf = (name: RegExp): readonly string[] => [...plantedIn(formsOf(texts(name)))];
  const json = (name: RegExp): readonly Json[] => texts(name).flatMap(text => JSON.parse(text) as Json);
  const documents = (all: readonly Json[]): readonly string[] => plantedDocuments(all).map(document => JSON.stringify(document));
  const lists = (all: readonly Json[]): readonly string[] => [
    JSON.stringify(plantedDocuments(all)),
    ...values.map(value => JSON.stringify(value)),
  ];
  const nft = json(/nft[^/]*\.json$|nft\/.*\.json$/).flatMap(document => (document as {readonly nftables: readonly Json[]}).nftables);
  const settings = documents(json(/configz\.json$/));
  return {
    'iptables-save': linesOf(/tables[^/]*-save[^/]*$|third-party\/.*iptables-restore$|parse\/[^/]*$/),
    'ipset-save': linesOf(/ipset-save$/),
    'ipvsadm-save': linesOf(/ipvsadm-save$/),
    'ipvsadm-list': linesOf(/ipvsadm-list\.txt$/),
    conntrack: linesOf(/conntrack$/),
    'conntrack-stats': [...plantedIn(connectionCounts)],
    metrics: linesOf(/metrics$/),
    sysctls: linesOf(/sysctls$/),
    'interface-sysctls': [...plantedIn(['net.ipv4.conf.eth0.rp_filter = 1', `net.ipv4.conf.${word}.rp_filter = 1`])],
    'asked-by-rules': [...plantedIn(['net.xfrm.states = 2', 'net.xfrm.policies = 4', 'net.netfilter.queues = 0,3'])],
    'nft.txt': linesOf(/nft[^/]*\.txt$|nft\/.*\.txt$/),
    'nft.json': [JSON.stringify({nftables: plantedDocuments(nft)}), ...values.map(value => JSON.stringify({nftables: value}))],
    'addresses.json': lists(json(/addresses\.json$/)),
    'links.json': lists(links),
    'netconf.json': lists([{family: 'inet', interface: 'eth0', forwarding: true, rp_filter: 'off', mc_forwarding: false}]),
    'routes.json': lists(routes),
    'ip-rules.json': lists(policyRules),
    'configz.json': settings.filter((_, index) => index % 20 === 0),
    'kube-proxy-config.yaml': settings
      .map(text => JSON.stringify(Object.values(JSON.parse(text) as Json & object)[0]))
      .filter(contains)
      .slice(0, 20),
    'healthz.json': documents(json(/healthz\.json$/)),
    ...Object.fromEntries(
      ['service-list.json', 'bpf-lb-list.json', 'bpf-lb-list-frontends.json', 'status.json', 'version.json'].map(file => [
        file,
        documents([JSON.parse(tablesOfCilium[file] ?? '') as Json]),
      ]),
    ),
    'db-show-node-addresses.txt': [...plantedIn([tablesOfCilium['db-show-node-addresses.txt'] ?? ''])],
    'proxy-mode': [word, `iptables ${word}`],
    'iptables-version': [...plantedIn(['iptables v1.8.9 (nf_tables)'])],
    'kube-proxy-version': [...plantedIn(['Kubernetes v1.33.2-gke.1+k3s1'])],
    'kube-proxy.log': [...plantedIn(['E0101 12:00:00.000000 1 proxier.go:1] "Failed to execute iptables-restore" err="exit status 4"'])],
  };
}

describe('no planted word is in a redacted bundle', () => {
  const files = plantedFiles();
  const [folder = ''] = folders;
  const bundle = join(folder, 'planted');
  const redacted = join(folder, 'redacted');

  beforeAll(async () => {
    const count = Math.max(...Object.values(files).map(contents => contents.length));
    for (let number = 0; number < count; number++) {
      for (const [file, contents] of Object.entries(files)) write(join(bundle, 'nodes', `${word}-${number}`, file), contents[number]);
    }
    for (const [file, kind] of Object.entries(kinds)) {
      // A list of objects of another kind is not read.
      const namespaced = {
        ...(objectOf(kind) as object),
        kind: kind.slice(2),
        metadata: {name: `${word}-0`, namespace: word, labels: {[word]: word}},
      };
      write(
        join(bundle, 'api', `${file}.json`),
        JSON.stringify({kind: 'List', items: file === 'pods' ? [namespaced, kubeProxyPod] : [namespaced]}),
      );
    }
    const {exitCode, stderr} = await svcTrace(['capture', '--from', bundle, '-o', redacted, '--redact']);
    expect(stderr).toMatch(/replaced|redacted/);
    expect(exitCode).toBeLessThan(3);
  });

  test('which the plain one contains in every file', () => {
    for (const [file, contents] of Object.entries(files)) {
      expect([file, contents.length > 0]).toEqual([file, true]);
      for (const content of contents) expect([file, contains(content)]).toEqual([file, true]);
    }
    expect(readdirSync(join(redacted, 'nodes')).length).toBe(readdirSync(join(bundle, 'nodes')).length);
  });

  test.each(Object.keys(files))('nodes/*/%s', file => {
    const leaks = filesBelow(redacted)
      .filter(path => basename(path) === file)
      .flatMap(linesWithWord);
    expect(leaks.slice(0, 6)).toEqual([]);
  });

  test('nor in the objects of the API, the record of the capture and the names of files', () => {
    const others = filesBelow(redacted).filter(path => !Object.hasOwn(files, basename(path)));
    expect(others.map(path => basename(path))).toContain('snapshot.json');
    expect(others.flatMap(linesWithWord)).toEqual([]);
    for (const file of Object.keys(kinds)) {
      const {items} = JSON.parse(readFileSync(join(redacted, 'api', `${file}.json`), 'utf8')) as {readonly items: readonly unknown[]};
      expect([file, items.length]).toEqual([file, file === 'pods' ? 2 : 1]);
    }
    expect(filesBelow(redacted).filter(contains)).toEqual([]);
  });
});

test.each(Object.entries(objectTreatments))(
  '%s of the API lose the word wherever it is planted, also where a value has another type',
  (list, treatment) => {
    const file = new RegExp(`captures/(?:healthy/1.36|eras).*/api/${list}\\.json$`, 'i');
    const items = texts(file).flatMap(text => (JSON.parse(text) as {readonly items: readonly Json[]}).items);
    const kind = Object.entries(kinds).find(([name]) => name === list.toLowerCase())?.[1] ?? '';
    const planted = plantedDocuments([...items, objectOf(kind)]);
    expect(planted.slice(-100).filter(document => contains(JSON.stringify(document)))).toHaveLength(100);
    const replacements = new Replacements('key');
    const leaks = planted.map(document => JSON.stringify(treat(document, treatment, replacements))).filter(text => contains(text ?? ''));
    expect(leaks.slice(0, 3)).toEqual([]);
  },
);

test('settings lose the word wherever it is planted', () => {
  const planted = plantedDocuments(texts(/configz\.json$/).map(text => JSON.parse(text) as Json)).map(document => JSON.stringify(document));
  expect(planted.filter(contains).length).toBeGreaterThan(500);
  const replacements = new Replacements('key');
  expect(
    planted
      .map(text => redactConfigz(text, replacements))
      .filter(contains)
      .slice(0, 3),
  ).toEqual([]);
});

function write(path: string, content: string | undefined): void {
  if (content === undefined) return;
  mkdirSync(dirname(path), {recursive: true});
  writeFileSync(path, content);
}

function filesBelow(folder: string): readonly string[] {
  return readdirSync(folder, {recursive: true, withFileTypes: true}).flatMap(entry =>
    entry.isFile() ? [join(entry.parentPath, entry.name)] : [],
  );
}

function linesWithWord(path: string): readonly string[] {
  const text = readFileSync(path, 'utf8');
  if (!contains(text)) return [];
  const found = text.split('\n').filter(contains);
  return found.flatMap(line =>
    line.length < 300 ? [line] : (line.match(/.{0,80}(?:wombat|b21iYX|tYmF0|29tYmF|d29tYm).{0,60}/gi) ?? [line.slice(0, 300)]),
  );
}
