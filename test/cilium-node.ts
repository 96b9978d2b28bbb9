import type {EndpointSliceObject, ServiceObject} from '../src/model/api-objects.ts';
import {diagnose} from '../src/diagnose.ts';
import type {Finding} from '../src/model/finding.ts';
import type {Report} from '../src/model/report.ts';
import type {DiagnoseOptions} from '../src/diagnosis/diagnose-node.ts';
import {type ApiObjects, noObjects, type Snapshot} from '../src/model/snapshot.ts';

/** A row of an agent's table; in the tests one key is enough to name it. */
export interface Row {
  readonly key: string;
  readonly type: string;
  readonly service: string;
  /** Each as `ip:port`, with its state if that is not active. */
  backends: string[];
  policy?: 'Local';
}

/** A node with Cilium: its agent's table, and what the map has otherwise. Made by hand in the form in which `cilium-dbg` prints it. */
export class CiliumTables {
  version = '1.19.4';
  rows: Row[] = [
    {key: '10.96.1.1:80/TCP', type: 'ClusterIP', service: 'web', backends: ['10.1.0.1:8080', '10.1.1.2:8080']},
    {key: '192.0.2.10:80/TCP', type: 'LoadBalancer', service: 'web', backends: ['10.1.0.1:8080', '10.1.1.2:8080']},
    {key: '0.0.0.0:30080/TCP', type: 'NodePort', service: 'web', backends: ['10.1.0.1:8080', '10.1.1.2:8080']},
    {key: '10.96.1.2:53/UDP', type: 'ClusterIP', service: 'dns', backends: []},
  ];
  files: Record<string, string | undefined> = {};
  api: ApiObjects = {...noObjects, services: [web, dns], endpointSlices: [slice], nodes: [node], pods: [], configMaps: [config]};

  row(key: string): Row {
    const row = this.rows.find(one => one.key === key);
    if (row === undefined) throw new Error(`there is no ${key}`);
    return row;
  }

  /** What the map has, row by row; a test edits it. */
  readonly map: Record<string, string[]> = {};

  /** Writes the map as an agent does that has these rows. */
  writeMap(): this {
    for (const row of this.rows)
      for (const key of row.key.startsWith('0.0.0.0') ? [row.key, row.key.replace('0.0.0.0', '172.18.0.2')] : [row.key])
        this.map[key] = [
          [
            row.type,
            ...(row.policy === 'Local' ? ['Local'] : []),
            ...(row.policy === 'Local' && row.type !== 'ClusterIP' ? ['two-scopes'] : []),
            ...(row.type === 'LoadBalancer' ? ['check source-range'] : []),
          ].join(', '),
          ...row.backends.filter(text => !text.includes(' ')),
        ];
    return this;
  }

  /** What the agent's commands print, by the name of the file. */
  printed(): Readonly<Record<string, string | undefined>> {
    const lines = Object.entries(this.map).flatMap(([key, [flags = '', ...backends]], index) => {
      const [protocol] = /[A-Z]+/.exec(key) ?? [];
      const rows = backends.map((text, at) => [
        `${key} (${at + 1})`,
        text.includes('not found') ? text : `${text}/${protocol} (${index}) (${at + 1})`,
      ]);
      return [
        [`${key} (0)`, `0.0.0.0:0 (${index}) (0) [${flags}] `, `0 ${backends.length}[0] (${index}) [0x0 0x0]`, flags, `${index}`],
        ...rows,
      ];
    });
    const print = (column: number): string =>
      JSON.stringify(Object.fromEntries(lines.map(line => [line[0], [line[column] ?? '1 0[0] (0) [0x0 0x0]']])));
    const ranged = lines.filter(line => line[3]?.includes('check'));
    const replies = Object.keys(this.map).map((key, index) => [`${index}`, [key.replace(/\/.*/, '')]]);
    return {
      'service-list.json': JSON.stringify(this.rows.map(realized)),
      'bpf-lb-list.json': print(1),
      'bpf-lb-list-frontends.json': print(2),
      'bpf-lb-list-revnat.json': JSON.stringify(Object.fromEntries(replies)),
      'bpf-lb-list-source-ranges.json': JSON.stringify(Object.fromEntries(ranged.map(line => [`203.0.113.0/24 (${line[4]})`, ['']]))),
      'status.json': JSON.stringify({kubernetes: {state: 'Ok'}, 'kube-proxy-replacement': {mode: 'True'}}),
      'version.json': JSON.stringify({Daemon: {Version: this.version}}),
      'db-show-node-addresses.txt':
        'Address   NodePort   Primary   DeviceName\n172.18.0.2   true   true   eth0\n10.1.0.9   false   true   cilium_host\n',
      ...this.files,
    };
  }

  snapshot(): Snapshot {
    const files = this.printed();
    const names = Object.keys(files).filter(name => files[name] !== undefined);
    const dump = {name: 'node-a', files: names, read: (file: string) => (files[file] === undefined ? null : Buffer.from(files[file]))};
    return {origin: 'test', api: this.api, nodes: [dump], problems: []};
  }

  report(options: Partial<DiagnoseOptions> = {}): Report {
    return diagnose(this.snapshot(), {toolVersion: '0.0.0', ...options});
  }

  /** Findings of the node. */
  findings(): readonly Finding[] {
    return this.report().findings.filter(finding => finding.node !== undefined);
  }

  /** The same in short. */
  texts(): readonly string[] {
    return this.findings().map(({code, severity, message}) => `${code} ${severity} ${message}`);
  }
}

function realized({key, type, service, backends, policy = undefined}: Row): object {
  const [, ip, port, protocol, internal] = /^(.+):(\d+)\/([A-Z]+)(\/i)?$/.exec(key) ?? [];
  const list = backends.map(text => {
    const [, address, number, state] = /^(.+):(\d+) ?(.*)$/.exec(text) ?? [];
    return {ip: address, port: Number(number), protocol, state: state === '' ? 'active' : state};
  });
  const flags = {name: service, namespace: 'shop', type, extTrafficPolicy: policy ?? 'Cluster', intTrafficPolicy: 'Cluster'};
  const scope = internal === undefined ? 'external' : 'internal';
  return {
    status: {
      realized: {
        'backend-addresses': list.length === 0 ? null : list,
        flags,
        'frontend-address': {ip: ip?.replaceAll(/[[\]]/g, ''), port: Number(port), protocol, scope},
      },
    },
  };
}

const web: ServiceObject = {
  metadata: {name: 'web', namespace: 'shop'},
  spec: {
    ...{type: 'LoadBalancer', clusterIP: '10.96.1.1', clusterIPs: ['10.96.1.1'], ipFamilies: ['IPv4'], selector: {app: 'web'}},
    ...{ports: [{name: 'http', port: 80, protocol: 'TCP', nodePort: 30080}], loadBalancerSourceRanges: ['203.0.113.0/24']},
  },
  status: {loadBalancer: {ingress: [{ip: '192.0.2.10'}]}},
};
const dns: ServiceObject = {
  metadata: {name: 'dns', namespace: 'shop'},
  spec: {clusterIP: '10.96.1.2', clusterIPs: ['10.96.1.2'], ipFamilies: ['IPv4'], ports: [{name: 'dns', port: 53, protocol: 'UDP'}]},
};
const slice: EndpointSliceObject = {
  ...{addressType: 'IPv4', metadata: {name: 'web-1', namespace: 'shop', labels: {'kubernetes.io/service-name': 'web'}}},
  ports: [{name: 'http', port: 8080, protocol: 'TCP'}],
  endpoints: [
    {addresses: ['10.1.0.1'], nodeName: 'node-a', conditions: {ready: true}},
    {addresses: ['10.1.1.2'], nodeName: 'node-b', conditions: {ready: true}},
  ],
};
const node = {metadata: {name: 'node-a'}, status: {addresses: [{type: 'InternalIP', address: '172.18.0.2'}]}};
const config = {metadata: {name: 'cilium-config', namespace: 'kube-system'}, data: {'enable-ipv4': 'true', 'enable-ipv6': 'false'}};
