import {expect, test} from 'vitest';
import type {PodObject} from '../../src/model/api-objects.ts';
import type {ApiObjects} from '../../src/model/snapshot.ts';
import {diagnose} from '../../src/diagnose.ts';
import {CiliumTables, type Row} from '../cilium-node.ts';
import {causesOf} from '../../src/render/headline.ts';
import {seededRandom} from '../bench/random.ts';
import {nodeDump} from '../cluster.ts';
import {withRules} from '../rendered-dump.ts';
import {containing} from '../scenario.ts';

/** A node of Cilium that a test changes; the map follows the agent's table unless the test edits it. */
function given(change: (tables: CiliumTables) => void = () => {}): CiliumTables {
  const tables = new CiliumTables();
  change(tables);
  return tables.writeMap();
}

/** One with another map than the agent's table. */
function withMap(change: (map: Record<string, string[]>) => void): CiliumTables {
  const tables = given();
  change(tables.map);
  return tables;
}

const clusterIP = '10.96.1.1:80/TCP';
const usual = ['10.1.0.1:8080', '10.1.1.2:8080'];
const balancer = '192.0.2.10:80/TCP';

test('a healthy node is checked and without a finding, and says the version of Cilium', () => {
  expect(given().texts()).toEqual([]);
  const [node] = given().report().nodes;
  expect(node).toMatchObject({status: 'checked', proxyMode: 'cilium', ciliumVersion: '1.19.4', families: ['IPv4']});
});

test('without cilium-config, what the agent serves shows whether it serves every Service; if nothing does, none is called missing', () => {
  const unread = (change: (tables: CiliumTables) => void = () => {}) =>
    given(tables => {
      change(tables);
      tables.api = {...tables.api, configMaps: []};
    });
  expect(unread().texts()).toEqual([]);
  const labeled = unread(tables => {
    tables.rows = [{...tables.row(clusterIP), service: 'labeled'}];
  });
  expect(labeled.report().nodes).toMatchObject([{status: 'unread', reason: containing('k8s-service-proxy-name) was not read')}]);
  expect(labeled.texts().filter(text => / ST20/.test(` ${text}`))).toEqual([]);
});

test('a port without a name, in a slice too, is that of its Service', () => {
  const tables = given(given => {
    const withoutNames = (key: string, value: unknown): unknown =>
      key === 'ports' ? (value as object[]).map(port => ({...port, name: undefined})) : value;
    given.api = JSON.parse(JSON.stringify(given.api, withoutNames)) as ApiObjects;
  });
  expect(tables.texts()).toEqual([]);
});

test('what the API alone shows is told as Cilium takes it where it replaces kube-proxy', () => {
  const codes = (change: (tables: CiliumTables) => void): readonly string[] => {
    const tables = new CiliumTables();
    tables.api = structuredClone(tables.api);
    Object.assign(tables.api.configMaps?.[0]?.data ?? {}, {'kube-proxy-replacement': 'true'});
    change(tables);
    return tables.report().findings.flatMap(({code, node, message}) => (node === undefined ? `${code} ${message}` : []));
  };
  const [dns] = codes(() => {}).filter(text => text.startsWith('ST101'));
  expect(dns).toContain('no endpoint that Cilium would use');
  const unnamed = (tables: CiliumTables): void => void Object.assign(tables.api.endpointSlices?.[0]?.ports?.[0] ?? {}, {name: ''});
  expect(codes(unnamed).filter(text => text.includes('shop/web') && /^ST10[12]/.test(text))).toEqual([]);
  const nowhere = (tables: CiliumTables): void => {
    Object.assign(tables.api.services?.[0]?.spec ?? {}, {externalTrafficPolicy: 'Local'});
    for (const endpoint of tables.api.endpointSlices?.[0]?.endpoints ?? []) Object.assign(endpoint, {nodeName: undefined});
  };
  expect(codes(nowhere).filter(text => text.startsWith('ST108'))).toEqual([]);
  const hinted = (tables: CiliumTables): void =>
    void Object.assign(tables.api.endpointSlices?.[0]?.endpoints?.[0] ?? {}, {hints: {forZones: [{name: 'zone-1'}]}});
  expect(codes(hinted).filter(text => text.startsWith('ST104'))).toEqual([]);
});

test('ST101: that a proxy of Cilium answers for a Gateway holds in the family of which it has no slice, too', () => {
  const found = (address: string): readonly string[] => {
    const {api} = new CiliumTables();
    const [, dns] = structuredClone(api.services) ?? [];
    Object.assign(dns?.spec ?? {}, {clusterIPs: ['10.96.1.2', 'fd00:96::2'], ipFamilies: ['IPv4', 'IPv6']});
    const ofDns = {metadata: {name: 'dns-1', namespace: 'shop', labels: {'kubernetes.io/service-name': 'dns'}}, addressType: 'IPv4'};
    const endpointSlices = [{...ofDns, ports: [{name: 'dns', port: 9999, protocol: 'UDP'}], endpoints: [{addresses: [address]}]}];
    const configMaps = [{metadata: {name: 'cilium-config'}, data: {'kube-proxy-replacement': 'true'}}];
    const snapshot = {origin: 'test', api: {...api, services: dns === undefined ? [] : [dns], endpointSlices, configMaps}, problems: []};
    return diagnose({...snapshot, nodes: []}, {toolVersion: '0.0.0'}).findings.flatMap(({code, family}) =>
      code === 'ST101' ? (family ?? '') : [],
    );
  };
  expect(found('192.192.192.192')).toEqual([]);
  expect(found('10.1.0.7')).toEqual(['IPv6']);
});

test('ST903: a node whose agent of Cilium was not read, and that has no rules of kube-proxy, is said to be served by Cilium', () => {
  const pod = {metadata: {name: 'c', namespace: 'kube-system', labels: {'k8s-app': 'cilium'}}, spec: {nodeName: 'node-a'}};
  const found = (pods: readonly PodObject[]) => {
    const {api} = new CiliumTables();
    const rules = {
      name: 'node-a',
      files: ['iptables-save'],
      read: (file: string) => (file !== 'iptables-save' ? null : Buffer.from('*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n')),
    };
    return diagnose({origin: 'test', api: {...api, pods}, nodes: [rules], problems: []}, {toolVersion: '0.0.0'}).findings;
  };
  expect(found([pod]).filter(({node}) => node !== undefined)).toMatchObject([
    {code: 'ST903', message: containing('an agent of Cilium'), remedy: containing('without --agents')},
  ]);
  expect(found([]).map(({code}) => code)).not.toContain('ST903');
});

test('ids, order, slots above the count and backends that end are no findings', () => {
  const tables = given(({rows}) => {
    for (const row of rows) row.backends.reverse();
    rows[0]?.backends.push('10.1.0.7:8080 terminating', '10.1.0.8:8080 maintenance');
  });
  expect(tables.texts()).toEqual([]);
});

test('what the agent lacks or keeps is reported as on other nodes, and the agent is to be restarted', () => {
  const stale = given(tables => tables.row(clusterIP).backends.push('10.1.1.9:8080'));
  expect(stale.texts()).toEqual([
    'ST203 error shop/web:http: the agent still sends to 10.1.1.9:8080, which no EndpointSlice has (at 10.96.1.1:80/TCP)',
  ]);
  expect(stale.findings()[0]?.remedy).toContain('the cilium-agent on this node');
  const missing = given(({rows}) => {
    for (const {backends} of rows) backends.shift();
  });
  expect(missing.texts()).toEqual([
    'ST202 error shop/web:http: 10.1.0.1:8080 gets no traffic: it is ready, and the agent does not have it',
  ]);
  const nothing = given(tables => (tables.rows = tables.rows.filter(({service}) => service !== 'dns')));
  expect(nothing.texts()).toEqual(['ST201 error shop/dns:dns: not programmed on this node: the agent does not have it']);
  const entry = given(tables => (tables.rows = tables.rows.filter(({type}) => type !== 'LoadBalancer')));
  expect(entry.texts()).toEqual(['ST206 error shop/web:http: the agent does not have load-balancer IP 192.0.2.10:80']);
  const gone = given(tables => tables.rows.push({key: '10.96.9.9:80/TCP', type: 'ClusterIP', service: 'old', backends: ['10.1.0.1:8080']}));
  expect(gone.texts()).toEqual([containing('ST205 error the agent still serves shop/old at 10.96.9.9:80/TCP')]);
  const givenAway = given(tables => {
    tables.api = structuredClone(tables.api);
    Object.assign(tables.api.services?.[0]?.metadata ?? {}, {labels: {'service.kubernetes.io/service-proxy-name': 'other'}});
  });
  expect(givenAway.texts()).toEqual([containing('service-proxy-name gives it to another proxy')]);
});

test('what stopped following the API is the agent, and not kube-proxy', () => {
  const found = given(tables => tables.row(clusterIP).backends.push('10.1.1.9:8080')).findings();
  const since = {after: '2026-11-23T15:10:00Z'};
  const [plain] = causesOf({findings: found}, undefined);
  expect(plain?.message).toContain('the Cilium agent still sends to 10.1.1.9:8080, which is no usable endpoint');
  const [cause] = causesOf({findings: found.map(finding => ({...finding, since}))}, undefined);
  expect(cause?.message).toContain('the Cilium agent stopped applying changes after 2026-11-23 15:10:00');
});

test('a bug that loses deletions is named where the version has it', () => {
  const remedy = (version: string): string | undefined => {
    const tables = new CiliumTables();
    tables.version = version;
    tables.row(clusterIP).backends.push('10.1.1.9:8080');
    return tables.writeMap().findings()[0]?.remedy;
  };
  expect(remedy('1.19.2')).toContain('1.19.2 can lose deletions');
  expect(remedy('1.19.3')).not.toContain('can lose deletions');
});

test('a traffic policy of before is one finding, whatever it changes', () => {
  const tables = given(({rows}) => {
    for (const row of rows) row.policy = 'Local';
  });
  expect(tables.texts().map(text => text.slice(0, 20))).toEqual(['ST207 warning shop/d', 'ST207 warning shop/w']);
});

test('the first line tells source ranges that the Service does not have, and entries that clients in the cluster lack', () => {
  const first = (tables: CiliumTables) => causesOf({findings: tables.findings()}, undefined)[0]?.message;
  const unasked = given(tables => {
    tables.api = structuredClone(tables.api);
    Object.assign(tables.api.services?.[0]?.spec ?? {}, {loadBalancerSourceRanges: undefined});
  });
  expect(first(unasked)).toBe(
    "shop/web on node-a: clients are dropped by source ranges that the Service does not have, by the kernel's map of Cilium",
  );
  const unscoped = given(tables => {
    tables.api = structuredClone(tables.api);
    Object.assign(tables.api.services?.[0]?.spec ?? {}, {externalTrafficPolicy: 'Local'});
    for (const row of tables.rows.slice(0, 3)) row.policy = 'Local';
    for (const row of tables.rows.slice(1, 3)) row.backends = row.backends.slice(0, 1);
  });
  expect(first(unscoped)).toContain('is not programmed by the Cilium agent for clients inside the cluster');
});

test('source ranges that the map does not check, or has otherwise, are reported, and those of a healthy map are not', () => {
  const open = withMap(map => void map['192.0.2.10:80/TCP']?.splice(0, 1, 'LoadBalancer'));
  expect(open.texts()).toEqual([
    containing("ST210 error shop/web:http: the kernel's map checks no source ranges: every client gets in (at 192.0.2.10:80/TCP)"),
  ]);
  // Some versions check them at every entry.
  const atNodePort = (ranges: (printed: string) => string): readonly string[] => {
    const tables = withMap(map => void map['172.18.0.2:30080/TCP']?.splice(0, 1, 'NodePort, check source-range'));
    const file = 'bpf-lb-list-source-ranges.json';
    tables.files[file] = ranges(tables.printed()[file] ?? '');
    return tables.texts();
  };
  const id = Object.keys(withMap(() => {}).map).indexOf('172.18.0.2:30080/TCP');
  expect(atNodePort(printed => printed)).toEqual([]);
  expect(atNodePort(printed => printed.replace(`203.0.113.0/24 (${id})`, `198.51.100.0/24 (${id})`))).toEqual([
    containing(
      "of the source ranges the kernel's map does not have 203.0.113.0/24, and has 198.51.100.0/24 besides (at 172.18.0.2:30080/TCP)",
    ),
  ]);
});

test('ST801: the map lacks an entry, lacks a backend, keeps one, or has another kind of entry', () => {
  const at = (change: (map: Record<string, string[]>) => void): readonly string[] => withMap(change).texts();
  const [code] = withMap(map => void delete map['172.18.0.2:30080/TCP']).findings();
  expect(code).toMatchObject({code: 'ST801', severity: 'error', message: containing('does not have 172.18.0.2:30080/TCP')});
  expect(at(map => void map[clusterIP]?.pop())).toEqual([containing('does not send to 10.1.1.2:8080 at 10.96.1.1:80/TCP')]);
  expect(at(map => void map[clusterIP]?.push('10.1.1.9:8080'))).toEqual([containing('still sends to 10.1.1.9:8080')]);
  expect(at(map => void map[clusterIP]?.splice(0, 1, 'HostPort'))).toEqual([
    containing('has a HostPort at 10.96.1.1:80/TCP, and the agent a ClusterIP'),
  ]);
  expect(at(map => void Object.assign(map, {'10.96.7.7:80/TCP': ['ClusterIP', '10.1.0.1:8080']}))).toEqual([containing('ST801 warning')]);
  expect(at(map => void map[clusterIP]?.push('10.1.1.2:8080'))).toEqual([
    containing("ST801 warning shop/web:http: 2 of 3 slots of the kernel's map at 10.96.1.1:80/TCP lead to 10.1.1.2:8080"),
  ]);
  expect(at(() => {})).toEqual([]);
});

test('the first line names the entry that the map lacks, if it is one', () => {
  const says = (change: (map: Record<string, string[]>) => void) => causesOf({findings: withMap(change).findings()}, undefined)[0]?.message;
  const onNode = '172.18.0.2:30080/TCP';
  expect(says(map => void delete map[clusterIP])).toBe(
    "shop/web on node-a: connections to 10.96.1.1:80 fail, the kernel's map of Cilium lacks the entry",
  );
  expect(says(map => void delete map[onNode])).toBe(
    "shop/web on node-a: connections to node port 30080 fail, the kernel's map of Cilium lacks the entry",
  );
  const both = (map: Record<string, string[]>): void => void (delete map[clusterIP] && delete map[onNode]);
  expect(says(both)).toBe("shop/web on node-a: connections fail, the kernel's map of Cilium lacks entries");
});

test('ST801: a map without any entry is one finding of the node: no Service works', () => {
  const tables = given();
  for (const key of Object.keys(tables.map)) delete tables.map[key];
  expect(tables.findings()).toMatchObject([{code: 'ST801', severity: 'error', hits: {share: 1}}]);
  expect(causesOf({findings: tables.findings()}, undefined)[0]?.message).toBe(
    "node-a: no Service works, the kernel's map of Cilium is empty",
  );
});

test('ST801: the first line counts the backends that the map lacks or keeps', () => {
  const says = (change: (map: Record<string, string[]>) => void) => causesOf({findings: withMap(change).findings()}, undefined)[0]?.message;
  expect(says(map => (map[clusterIP] = ['ClusterIP']))).toBe(
    "shop/web on node-a: 2 of 2 endpoints get no traffic, the kernel's map of Cilium lacks them",
  );
  expect(says(map => void map[clusterIP]?.push('10.1.1.8:8080', '10.1.1.9:8080', '10.1.1.7:8080'))).toBe(
    "shop/web on node-a: the kernel's map of Cilium still sends to 3 addresses",
  );
});

test('ST801: the flags of an entry are those that its policies and its address ask for', () => {
  const flagged = (key: string, flags: string, change: (tables: CiliumTables) => void = () => {}): readonly string[] => {
    const tables = given(change);
    tables.map[key]?.splice(0, 1, flags);
    return tables.texts().filter(text => text.startsWith('ST801'));
  };
  const onNode = '172.18.0.2:30080/TCP';
  expect(flagged(onNode, 'NodePort, non-routable')).toEqual([
    containing("ST801 error shop/web:http: the kernel's map drops packets of clients outside the cluster at 172.18.0.2:30080/TCP"),
  ]);
  expect(flagged(onNode, 'NodePort, two-scopes')).toEqual([containing('the agent has none for them')]);
  expect(flagged(onNode, 'NodePort, Local')).toEqual([containing('ST801 warning')]);
  const local = ({rows}: CiliumTables): void => {
    for (const row of rows) row.policy = 'Local';
  };
  expect(flagged(balancer, 'LoadBalancer, Local, check source-range', local)).toEqual([
    containing('all get the endpoints of those outside'),
  ]);
  expect(flagged(balancer, 'LoadBalancer, Local, two-scopes, check source-range', local)).toEqual([]);
  expect(flagged('0.0.0.0:30080/TCP', 'NodePort, non-routable, dsr')).toEqual([]);
});

test('what the map has otherwise at several addresses of a Service port is one finding, and the first line says what', () => {
  const causes = (change: (map: Record<string, string[]>) => void): readonly string[] =>
    causesOf({findings: withMap(change).findings()}, undefined).map(({text}) => text);
  const lacking = (map: Record<string, string[]>): void => {
    for (const key of [clusterIP, balancer, '0.0.0.0:30080/TCP', '172.18.0.2:30080/TCP']) map[key]?.pop();
  };
  expect(withMap(lacking).texts()).toEqual([
    containing('10.1.1.2:8080 at 10.96.1.1:80/TCP, 192.0.2.10:80/TCP, 0.0.0.0:30080/TCP, 172.18.0.2:30080/TCP, and the agent does'),
  ]);
  expect(causes(lacking)).toEqual([containing('shop/web on node-a: endpoint 10.1.1.2:8080 gets no traffic')]);
  expect(causes(map => void map[clusterIP]?.splice(0, 1, 'HostPort'))).toEqual([
    containing('map of Cilium has a HostPort in place of a Cl'),
  ]);
  expect(causes(map => void Object.assign(map, {'10.96.7.7:80/TCP': ['ClusterIP', '10.1.0.1:8080']}))).toEqual([
    containing("the kernel's map of Cilium still has 10.96.7.7:80/TCP, which the agent does not have"),
  ]);
});

test('ST801, ST210: a flag at one address of a frontend, or that fits no backend, is reported', () => {
  const flagged = (key: string, flags: string): readonly string[] => withMap(map => void map[key]?.splice(0, 1, flags)).texts();
  expect(flagged('172.18.0.2:30080/TCP', 'NodePort, l7-load-balancer')).toContainEqual(
    containing("in the kernel's map a proxy of the node takes connections to 172.18.0.2:30080/TCP, and none those to 0.0.0.0:30080/TCP"),
  );
  expect(flagged(clusterIP, 'ClusterIP, 46x64')).toEqual([containing('translates between IPv4 and IPv6 at 10.96.1.1:80/TCP (46x64)')]);
  const everywhere = withMap(map => {
    for (const key of ['0.0.0.0:30080/TCP', '172.18.0.2:30080/TCP']) map[key]?.splice(0, 1, 'NodePort, l7-load-balancer');
  });
  expect(everywhere.texts()).toEqual([containing('ST807 info')]);
  // Where one node port checks them, each should.
  expect(flagged('0.0.0.0:30080/TCP', 'NodePort, check source-range')).toEqual([
    containing("ST210 error shop/web:http: the kernel's map checks no source ranges: every client gets in (at 172.18.0.2:30080/TCP)"),
  ]);
});

test('ST202: endpoints that are ready, and all terminating for the agent, are a warning; those that end are none', () => {
  const ending = ({rows}: CiliumTables): void => {
    for (const row of rows) row.backends = row.backends.map(text => `${text} terminating`);
  };
  const late = given(ending);
  for (const entry of Object.values(late.map)) entry.push(...(entry.length === 1 && entry[0] !== 'ClusterIP' ? usual : []));
  late.map[clusterIP]?.push(...usual);
  expect(late.texts()).toEqual([
    containing('ST202 warning shop/web:http: 10.1.0.1:8080 gets connections only as long as no other endpoint is active: it is ready'),
    containing('ST202 warning shop/web:http: 10.1.1.2:8080'),
  ]);
  expect(causesOf({findings: late.findings()}, undefined)[0]?.message).toContain(
    'the Cilium agent still has 2 of 2 endpoints as terminating',
  );
  late.api = structuredClone(late.api);
  // With publishNotReadyAddresses they are ready until the end.
  for (const ready of [false, true]) {
    for (const endpoint of late.api.endpointSlices?.[0]?.endpoints ?? [])
      Object.assign(endpoint, {conditions: {ready, serving: true, terminating: true}});
    expect(late.texts()).toEqual([]);
  }
});

test('session affinity is compared at each address of the node, too', () => {
  const tables = withMap(map => void map['172.18.0.2:30080/TCP']?.splice(0, 1, 'NodePort, sessionAffinity'));
  expect(tables.texts()).toEqual([
    containing("ST209 warning shop/web:http: the kernel's map has session affinity for 0 s at 172.18.0.2:30080/TCP"),
  ]);
});

test('frontends at addresses of the node are compared: load balancers there are often those of the node', () => {
  const onNode = '172.18.0.2:80/TCP';
  const at = (backends: string[], port = 80): readonly string[] =>
    given(tables => {
      tables.api = structuredClone(tables.api);
      Object.assign(tables.api.services?.[0] ?? {}, {status: {loadBalancer: {ingress: [{ip: '172.18.0.2'}]}}});
      Object.assign(tables.api.services?.[0]?.spec?.ports?.[0] ?? {}, {port});
      tables.rows = tables.rows.flatMap(row =>
        row.type === 'LoadBalancer'
          ? port === 80
            ? {...row, key: onNode, backends}
            : []
          : {...row, key: row.key.replace('1:80/', `1:${port}/`)},
      );
    }).texts();
  expect(at(['10.1.0.1:8080', '10.1.1.2:8080'])).toEqual([]);
  expect(at(['10.1.0.1:8080'])).toEqual([containing(`ST202 error shop/web:http: 10.1.1.2:8080 gets no traffic: it is ready`)]);
  // The newest agents refuse such an address with a port for node ports.
  expect(at([], 30_090)).toEqual([]);
});

test('ST206: the agent has an address as one of another type', () => {
  const typed = (type: string): readonly string[] => given(tables => tables.rows.splice(1, 1, {...tables.row(balancer), type})).texts();
  expect(typed('ExternalIPs')).toEqual([
    containing('ST206 warning shop/web:http: the agent has load-balancer IP 192.0.2.10:80 as one of type Ext'),
  ]);
  expect(typed('LoadBalancer')).toEqual([]);
  expect(typed('LocalRedirect').filter(text => text.startsWith('ST2'))).toEqual([]);
});

test('ST205: the agent serves what annotations take from it', () => {
  const annotated = (annotations: object, without: readonly string[] = []): readonly string[] =>
    given(tables => {
      tables.api = structuredClone(tables.api);
      Object.assign(tables.api.services?.[0]?.metadata ?? {}, {annotations});
      Object.assign(tables.api.nodes?.[0]?.metadata ?? {}, {labels: {}});
      tables.rows = tables.rows.filter(({type}) => !without.includes(type));
    }).texts();
  const only = {'service.cilium.io/type': 'ClusterIP'};
  expect(annotated(only)).toEqual([containing('ST205 error the agent still serves shop/web at 192.0.2.10:80/TCP, 0.0.0.0:30080/TCP')]);
  expect(annotated(only, ['LoadBalancer', 'NodePort'])).toEqual([]);
  // By a label of the node that changed later, that is by design.
  expect(annotated({'service.cilium.io/node': 'edge'})).toEqual([containing('ST205 info')]);
});

test('ST802: the agent says that it lost the API server', () => {
  const status = (state: string): string =>
    JSON.stringify({kubernetes: {state, msg: 'i/o timeout'}, 'kube-proxy-replacement': {mode: 'True'}});
  const lost = given(({files}) => (files['status.json'] = status('Failure')));
  expect(lost.findings()).toMatchObject([{code: 'ST802', message: containing('i/o timeout')}]);
  const failing = given(({files}) => {
    const cilium = {state: 'Failure', msg: 'Kvstore service is not ready'};
    files['status.json'] = JSON.stringify({cilium, 'kube-proxy-replacement': {mode: 'True'}});
  }).findings();
  expect(failing).toMatchObject([{code: 'ST802', message: containing('says that it fails: Kvstore service is not ready')}]);
  const [said] = causesOf({findings: failing}, undefined);
  expect(said?.message).toContain('the Cilium agent says that it fails');
  expect(given(({files}) => (files['status.json'] = status('Ok'))).texts()).toEqual([]);
  // What it keeps follows from it.
  const behind = given(({files, rows}) => {
    files['status.json'] = status('Failure');
    for (const {backends} of rows) backends.push('10.1.1.9:8080');
  });
  expect(causesOf({findings: behind.findings()}, undefined).map(({text}) => text)).toEqual([
    'node-a: the Cilium agent has no connection to the API server and follows no change (ST802)',
  ]);
});

test('ST803: an entry for all ports is at an address of the node, and not at one of a Service', () => {
  const at = (address: string) => withMap(map => (map[`${address}:0/ANY`] = ['LoadBalancer, non-routable'])).findings();
  expect(at('172.18.0.2')).toMatchObject([{code: 'ST803', severity: 'error'}]);
  // It takes the ports without a Service alone.
  const {summary} = withMap(map => (map['172.18.0.2:0/ANY'] = ['LoadBalancer, non-routable'])).report();
  expect(summary.servicesWithFindings).toBe(given().report().summary.servicesWithFindings);
  expect(at('192.0.2.10')).toEqual([]);
});

test('entries of node ports are not called left over where it was not read at which addresses node ports are served', () => {
  const tables = given(({files}) => (files['db-show-node-addresses.txt'] = undefined));
  expect(tables.texts()).toEqual([containing('ST902 warning IPv4 was not checked on node-a')]);
  tables.map['172.18.0.2:30099/TCP'] = ['NodePort', '10.1.0.1:8080'];
  expect(tables.texts()).toContainEqual(containing('1 entry that the agent does not have: 172.18.0.2:30099/TCP'));
});

test('ST804: a slot has no backend', () => {
  const found = withMap(map => (map[clusterIP] = ['ClusterIP', '10.1.0.1:8080', 'backend 12 not found'])).findings();
  expect(found).toMatchObject([{code: 'ST804', message: containing('leads to no backend: its connections are dropped')}]);
  const counted = given();
  const file = 'bpf-lb-list-frontends.json';
  counted.files[file] = (counted.printed()[file] ?? '').replace('0 2[0] (0)', '0 5[0] (0)');
  expect(counted.texts()).toEqual([containing("ST804 error shop/web:http: 3 of 5 slots of the kernel's map at 10.96.1.1:80/TCP")]);
  expect(withMap(() => {}).texts()).toEqual([]);
});

test('ST801: the id by which replies find their address is that of one entry alone', () => {
  const found = (of: (id: number) => number) => {
    const tables = given();
    for (const file of ['bpf-lb-list.json', 'bpf-lb-list-frontends.json'])
      tables.files[file] = (tables.printed()[file] ?? '').replaceAll(
        /\((\d+)\) ([([])(?!\d+\)")/g,
        (_, id, next) => `(${of(Number(id))}) ${next}`,
      );
    return tables.texts();
  };
  expect(found(id => id)).toEqual([]);
  expect(found(id => (id === 2 ? 1 : id))).toEqual([
    "ST801 error shop/web:http: the kernel's map has the id of 192.0.2.10:80/TCP, 0.0.0.0:30080/TCP twice: replies come from the address of one of the two",
  ]);
});

test.each([
  {
    of: 'another',
    change: (text: string) => text.replace('192.0.2.10:80', '192.0.2.11:80'),
    says: "by the kernel's map, replies of 192.0.2.10:80/TCP come from 192.0.2.11:80",
  },
  {
    of: 'none',
    change: (text: string) => text.replace(/"1":\["192.0.2.10:80"\],/, ''),
    says: "by the kernel's map, replies of 192.0.2.10:80/TCP come from the endpoint itself",
  },
])('ST801: the address of replies is $of', ({change, says}) => {
  const tables = given();
  const file = 'bpf-lb-list-revnat.json';
  tables.files[file] = change(tables.printed()[file] ?? '');
  expect(tables.texts()).toEqual([`ST801 error shop/web:http: ${says}`]);
  tables.files[file] = undefined;
  expect(tables.texts()).toEqual([]);
});

test('ST805: another Service has an address of the Service that is missing', () => {
  const found = given(
    tables => (tables.rows = [{...tables.row('192.0.2.10:80/TCP'), service: 'dns'}, tables.row('10.96.1.2:53/UDP')]),
  ).findings();
  expect(found.find(({code}) => code === 'ST805')).toMatchObject({message: containing('192.0.2.10:80/TCP already belongs to shop/dns')});
  expect(given().findings()).toEqual([]);
  // For what is refused in one family, the other is missing too; what is served in one is not refused.
  const dual = (rows: readonly Row[], address = '192.0.2.10') =>
    given(tables => {
      tables.api = structuredClone(tables.api);
      Object.assign(tables.api.services?.[0]?.spec ?? {}, {clusterIPs: ['10.96.1.1', 'fd00::1'], ipFamilies: ['IPv4', 'IPv6']});
      Object.assign(tables.api.configMaps?.[0]?.data ?? {}, {'enable-ipv6': 'true'});
      Object.assign(tables.api.services?.[0]?.status ?? {}, {loadBalancer: {ingress: [{ip: address}]}});
      const key = balancer.replace('192.0.2.10', address.includes(':') ? `[${address}]` : address);
      tables.rows = [{...tables.row(balancer), key, service: 'dns'}, tables.row('10.96.1.2:53/UDP'), ...rows];
    }).findings();
  const texts = (rows: readonly Row[]) => dual(rows).map(({code, severity, message}) => `${code} ${severity} ${message}`);
  expect(texts([]).filter(text => text.includes('shop/web'))).toEqual([containing('ST805 error shop/web: the agent refuses the whole')]);
  const six = {key: '[fd00::1]:80/TCP', type: 'ClusterIP', service: 'web', backends: []};
  expect(dual([], 'fd00:240::1').find(({code}) => code === 'ST805')).toMatchObject({
    family: 'IPv4',
    message: containing('[fd00:240::1]:80'),
  });
  expect(texts([six]).filter(text => text.includes('shop/web'))).toEqual([
    containing('ST201 error shop/web:http: not programmed'),
    containing('ST206 error shop/web:http: the agent does not have node port 30080'),
  ]);
});

test('the first line says of which addresses and host ports the agent keeps or lacks something', () => {
  const first = (change: (tables: CiliumTables) => void): string | undefined =>
    causesOf({findings: given(change).findings()}, undefined)[0]?.message;
  expect(first(tables => (tables.rows = tables.rows.filter(({type}) => type !== 'LoadBalancer')))).toBe(
    'shop/web on node-a: load-balancer IP 192.0.2.10:80 is not programmed by the Cilium agent',
  );
  expect(first(tables => tables.rows.push({...tables.row(balancer), key: '192.0.2.77:80/TCP'}))).toBe(
    'shop/web on node-a: the Cilium agent still serves 192.0.2.77:80/TCP, which the API no longer has',
  );
  expect(first(tables => tables.rows.splice(1, 1, {...tables.row(balancer), type: 'ExternalIPs'}))).toContain('as one of type ExternalIPs');
  const proxied = given(tables => {
    tables.api = structuredClone(tables.api);
    Object.assign(tables.api.services?.[0] ?? {}, {status: {loadBalancer: {ingress: [{ip: '192.0.2.10', ipMode: 'Proxy'}]}}});
  });
  expect(proxied.texts()).toEqual([containing('ST205 error the agent still serves shop/web at 192.0.2.10:80/TCP')]);
});

test('host ports of pods that were replaced or are gone, and those that the agent lacks, are reported', () => {
  const pod = (uid: string, hostIP?: string): PodObject => ({
    metadata: {name: 'p', namespace: 'shop', uid},
    spec: {
      nodeName: 'node-a',
      containers: [{name: 'main', ports: [{containerPort: 80, hostPort: 8080, ...(hostIP === undefined ? {} : {hostIP})}]}],
    },
    status: {phase: 'Running', podIPs: [{ip: '10.1.0.3'}]},
  });
  const row = {key: '0.0.0.0:8080/TCP', type: 'HostPort', service: 'p:host-port:8080:u1', backends: ['10.1.0.3:80']};
  const texts = (pods: readonly PodObject[], rows: readonly Row[], status?: object): readonly string[] =>
    given(tables => {
      if (status !== undefined) tables.files['status.json'] = JSON.stringify(status);
      tables.rows.push(...rows);
      tables.api = {...tables.api, pods};
    }).texts();
  expect(texts([pod('u1')], [row])).toEqual([]);
  expect(texts([pod('u2')], [row])).toEqual([containing('is that of its predecessor')]);
  expect(texts([], [row])).toEqual([
    containing('ST205 error the agent still serves host port 0.0.0.0:8080/TCP: the API has no pod shop/p'),
  ]);
  expect(texts([pod('u1')], [])).toEqual([containing('ST206 error the agent does not have host port 0.0.0.0:8080/TCP of pod shop/p')]);
  expect(texts([pod('u1')], [{...row, backends: []}])).toEqual([containing('it leads nowhere, and not to pod shop/p')]);
  expect(texts([pod('u1')], [{...row, backends: ['10.1.0.3:81']}])).toEqual([containing('it leads to 10.1.0.3:81, which is not')]);
  expect(texts([pod('u1', '192.0.2.77')], [])).toEqual([containing('does not have host port 192.0.2.77:8080/TCP')]);
  expect(texts([pod('u1', '192.0.2.77')], [{...row, key: '192.0.2.77:8080/TCP'}])).toEqual([]);
  // Of the range of node ports the agent takes none.
  const ranged = {mode: 'True', features: {hostPort: {enabled: true}, nodePort: {enabled: true, portMin: 8000, portMax: 9000}}};
  expect(texts([pod('u1')], [], {'kube-proxy-replacement': ranged})).toEqual([]);
});

test('ST806: an endpoint is quarantined, which is no missing endpoint', () => {
  const tables = given(({rows}) => {
    for (const row of rows) row.backends = row.backends.map(text => (text.startsWith('10.1.1') ? `${text} quarantined` : text));
  });
  expect(tables.findings()).toMatchObject([{code: 'ST806', severity: 'info'}]);
});

test('ST806: where all endpoints are quarantined, connections fail, and the first line says so', () => {
  const found = given(({rows}) => {
    for (const row of rows) row.backends = row.backends.map(text => `${text} quarantined`);
  }).findings();
  expect(found).toMatchObject([{code: 'ST806', severity: 'warning'}]);
  expect(causesOf({findings: found}, undefined)[0]?.message).toBe(
    'shop/web on node-a: connections fail, health checks of Cilium took all endpoints out of rotation',
  );
});

test('ST807: local redirects are listed apart, and never called stale', () => {
  const tables = given(({rows}) => rows.push({key: '10.96.8.8:53/UDP', type: 'LocalRedirect', service: 'lrp', backends: ['10.1.0.5:53']}));
  expect(tables.findings()).toMatchObject([{code: 'ST807', message: containing('10.96.8.8:53/UDP (of a local redirect policy)')}]);
});

test('ST807: where Cilium leaves node ports to a kube-proxy that was not read, that is said', () => {
  const tables = given(({files}) => {
    files['status.json'] = JSON.stringify({'kube-proxy-replacement': {mode: 'False'}});
  });
  expect(tables.findings()).toMatchObject([{code: 'ST807', severity: 'info', message: containing('whose rules were not read')}]);
});

test('ST206: Cilium leaves node ports to a kube-proxy that is not there', () => {
  const rules = '*nat\n:PREROUTING ACCEPT [0:0]\n:CILIUM_PRE_nat - [0:0]\n-A PREROUTING -j CILIUM_PRE_nat\nCOMMIT\n';
  const found = (mode: object, {data, dump}: {data?: object; dump?: string} = {}) =>
    given(tables => {
      Object.assign(tables.files, {'status.json': JSON.stringify({'kube-proxy-replacement': mode}), 'iptables-save': dump});
      tables.rows = tables.rows.filter(({type}) => type === 'ClusterIP');
      tables.api = {...tables.api, configMaps: [{metadata: {name: 'cilium-config'}, data: {'enable-ipv6': 'false', ...data}}]};
    }).findings();
  const off = {mode: 'False'};
  const told = {'kube-proxy-replacement': 'true'};
  const [error] = found(off, {data: told});
  expect(error).toMatchObject({code: 'ST206', severity: 'error', affects: [{name: 'web'}], remedy: containing('Restart the cilium-agent')});
  expect(causesOf({findings: found(off, {data: told})}, undefined)[0]?.message).toContain(
    'Cilium leaves them to a kube-proxy that is not there',
  );
  expect(found(off, {dump: rules})).toMatchObject([{code: 'ST206', severity: 'warning', message: containing('none was found there')}]);
  // Up to 1.18 node ports can be switched on by themselves.
  expect(found({...off, features: {nodePort: {enabled: true}}}, {dump: rules})).toEqual([]);
});

test('ST206: an agent that has load balancers without replacing kube-proxy should have all of them', () => {
  const found = (type: string, more: readonly Row[] = []) =>
    given(tables => {
      Object.assign(tables.files, {'status.json': JSON.stringify({'kube-proxy-replacement': {mode: 'False'}})});
      tables.rows = [...tables.rows.filter(row => row.type !== 'NodePort' && row.type !== type), ...more];
    })
      .texts()
      .filter(text => /^ST206/.test(text));
  expect(found('')).toEqual([]);
  const other: Row = {key: '192.0.2.11:80/TCP', type: 'LoadBalancer', service: 'old', backends: []};
  expect(found('LoadBalancer', [other])).toEqual([
    'ST206 warning shop/web:http: the agent does not have load-balancer IP 192.0.2.10:80, and leaves it to kube-proxy',
  ]);
  // Up to 1.18 an agent has none.
  expect(found('LoadBalancer')).toEqual([]);
});

test('without replacement what the agent has of external IPs is compared, and a Service refused for one of them is named', () => {
  const found = (change: (tables: CiliumTables) => void) =>
    given(tables => {
      const features = {externalIPs: {}, hostPort: {}, nodePort: {}};
      Object.assign(tables.files, {'status.json': JSON.stringify({'kube-proxy-replacement': {mode: 'False', features}})});
      tables.api = structuredClone(tables.api);
      Object.assign(tables.api.services?.[1]?.spec ?? {}, {externalIPs: ['192.0.2.9']});
      tables.rows = tables.rows.filter(row => row.type !== 'NodePort');
      change(tables);
    })
      .texts()
      .filter(text => !text.startsWith('ST807'));
  const external = (service: string, backends: string[]): Row => ({key: '192.0.2.9:53/UDP', type: 'ExternalIPs', service, backends});
  expect(found(({rows}) => rows.push(external('dns', [])))).toEqual([]);
  expect(found(({rows}) => rows.push(external('dns', ['10.1.1.9:53'])))).toEqual([containing('ST203 error shop/dns:dns')]);
  const refused = found(tables => (tables.rows = [...tables.rows.filter(({service}) => service !== 'dns'), external('web', [])]));
  expect(refused).toContainEqual(containing('ST805 error shop/dns: the agent refuses the whole Service, because 192.0.2.9:53/UDP'));
});

test('ST807: of a node of kube-proxy whose Cilium was not read, as agents do not read it, that is said', () => {
  const {api} = new CiliumTables();
  const pod = {metadata: {name: 'c', namespace: 'kube-system', labels: {'k8s-app': 'cilium'}}, spec: {nodeName: 'node-a'}};
  const found = (pods: readonly PodObject[]) => {
    const snapshot = {origin: 'test', api: {...api, pods}, problems: [], nodes: [nodeDump('node-a')]};
    const {findings, nodes} = diagnose(withRules(snapshot, seededRandom(1)), {toolVersion: '0.0.0'});
    expect(nodes).toMatchObject([{status: 'checked'}]);
    return findings.flatMap(({code, message}) => (code === 'ST807' ? message : []));
  };
  expect(found([pod])).toEqual([containing('the tables of its Cilium, which serves cluster IPs to pods, were not read')]);
  expect(found([])).toEqual([]);
});

test('an older Cilium, a starting agent and files that are not the tables are named, and nothing is called in sync', () => {
  const node = (change: (tables: CiliumTables) => void) => given(change).report().nodes[0];
  expect(node(tables => (tables.version = '1.17.4-gke.12'))).toMatchObject({
    ...{status: 'unsupported', reason: containing('Cilium 1.17.4-gke.12 serves its Services')},
  });
  expect(node(({files}) => (files['service-list.json'] = 'null'))).toMatchObject({status: 'unread', reason: containing('is starting')});
  expect(node(({files}) => (files['service-list.json'] = '[{}]'))).toMatchObject({status: 'unread'});
  expect(node(({files}) => (files['bpf-lb-list.json'] = '{"a": ["b"]}'))).toMatchObject({
    status: 'unread',
    reason: containing('unknown form: a'),
  });
  expect(node(({files}) => (files['bpf-lb-list-frontends.json'] = undefined))).toMatchObject({status: 'unread'});
  expect(node(({files}) => (files['db-show-node-addresses.txt'] = undefined))).toMatchObject({status: 'unread', families: ['IPv4']});
  expect(node(tables => (tables.api = {...tables.api, endpointSlices: null}))).toMatchObject({status: 'unread'});
});

test('tables are read in whatever spacing, with what was asked of the agent beside what it realized; a truncated one is not', () => {
  const spaced = (change: (text: string) => string): CiliumTables =>
    given(tables => {
      const {files} = tables.writeMap();
      for (const [file, text = ''] of Object.entries(tables.printed())) if (file.startsWith('bpf-lb-list')) files[file] = change(text);
      const rows = JSON.parse(tables.printed()['service-list.json'] ?? '') as {status: {realized: object}}[];
      files['service-list.json'] = change(JSON.stringify(rows.map(row => ({spec: {...row.status.realized, flags: {}}, ...row}))));
    });
  expect(spaced(text => text).texts()).toEqual([]);
  expect(spaced(text => `\n${JSON.stringify(JSON.parse(text), null, 4)}\n`).texts()).toEqual([]);
  const cut = spaced(text => text.slice(0, -1));
  expect(cut.report().nodes).toMatchObject([{status: 'unread', reason: containing('is not what the agent prints')}]);
  cut.files['service-list.json'] = spaced(text => text).files['service-list.json'];
  expect(cut.report().nodes).toMatchObject([{status: 'unread', reason: containing('bpf-lb-list.json is not what the agent prints')}]);
});
