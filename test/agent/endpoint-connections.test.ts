import {describe, expect, test} from 'vitest';
import {countEndpoints} from '../../src/agent/endpoint-connections.ts';
import {CommandFailed, type NodeInfo, type Transport} from '../../src/collect/node/transport.ts';
import {systemClock} from '../../src/run/clock.ts';
import {snapshotOf} from '../fixtures.ts';

const iptables = await snapshotOf('healthy/1.36-iptables');
const ipvs = await snapshotOf('ipvs/1.36');
const node: NodeInfo = {name: 'node-a', addresses: [{type: 'InternalIP', address: '172.18.0.11'}]} as unknown as NodeInfo;

/** A node whose commands print these texts; all others are missing. */
function printing(texts: Readonly<Record<string, string>>): {readonly transport: Transport; readonly asked: string[]} {
  const asked: string[] = [];
  const transport: Transport = {
    name: 'printing',
    open: async () => ({
      description: 'printing',
      run: async argv => {
        asked.push(argv.join(' '));
        const text = texts[argv[0] ?? ''];
        if (text === undefined) throw new CommandFailed(argv, {exitCode: 127, stderr: 'not found', notFound: true});
        return Buffer.from(text);
      },
      async [Symbol.asyncDispose]() {},
    }),
  };
  return {transport, asked};
}

/** The captured rules with counters: the endpoint of shop/web with this address got so many connections. */
function counted(address: string, connections: number): string {
  const dump = iptables.nodes[0]?.read('iptables-save')?.toString() ?? '';
  return dump.replace(
    /^-A .*$/gm,
    rule => `[${rule.includes('"shop/web:http"') && rule.includes(`--to-destination ${address}:`) ? connections : 0}:0] ${rule}`,
  );
}

const run = {node, timeoutMs: 600_000, signal: new AbortController().signal, clock: systemClock};

describe('the connections of endpoints that an agent counts', () => {
  test('are those counted by the rules of each endpoint, without conntrack', async () => {
    const {transport, asked} = printing({'iptables-save': counted('10.244.11.5', 42), 'ip6tables-save': ''});
    const {counts, problem} = await countEndpoints({...run, transport, api: iptables.api, mode: 'iptables'});
    expect(problem).toBeNull();
    expect(counts.filter(({service, endpoint}) => service.name === 'web' && !endpoint.includes('['))).toEqual([
      {service: {namespace: 'shop', name: 'web'}, port: 'http', protocol: 'TCP', endpoint: '10.244.11.4:8080', connections: 0},
      {service: {namespace: 'shop', name: 'web'}, port: 'http', protocol: 'TCP', endpoint: '10.244.11.5:8080', connections: 42},
      {service: {namespace: 'shop', name: 'web'}, port: 'http', protocol: 'TCP', endpoint: '10.244.12.4:8080', connections: 0},
    ]);
    expect(asked.filter(command => command.includes('conntrack'))).toEqual([]);
  });

  test('are read by the program of the backend that contains the rules', async () => {
    const empty = '*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n';
    const {transport} = printing({
      'iptables-save': empty,
      'ip6tables-save': empty,
      'iptables-legacy-save': counted('10.244.11.5', 7),
      'ip6tables-legacy-save': empty,
    });
    const {counts} = await countEndpoints({...run, transport, api: iptables.api, mode: 'iptables'});
    expect(counts.reduce((sum, {connections}) => sum + connections, 0)).toBe(7);
  });

  test('are summed over the virtual servers of a Service port in IPVS mode', async () => {
    const stats = [
      'IP Virtual Server version 1.2.1 (size=4096)',
      'Prot LocalAddress:Port               Conns   InPkts  OutPkts  InBytes OutBytes',
      '  -> RemoteAddress:Port',
      'TCP  10.96.1.1:80                       30      150      120    12345    54321',
      '  -> 10.244.11.4:8080                   30       50       40     4115    18107',
      '',
    ].join('\n');
    const {transport} = printing({ipvsadm: stats});
    const {counts} = await countEndpoints({...run, transport, api: ipvs.api, mode: 'ipvs'});
    expect(counts.filter(({connections}) => connections > 0)).toEqual([
      {service: {namespace: 'shop', name: 'web'}, port: 'http', protocol: 'TCP', endpoint: '10.244.11.4:8080', connections: 30},
    ]);
  });

  test.each([
    ['the program is missing', 'iptables', {}, /iptables-save|not found/],
    [
      'the rules have no counters',
      'iptables',
      {'iptables-save': iptables.nodes[0]?.read('iptables-save')?.toString() ?? '', 'ip6tables-save': ''},
      /^the node has no rules of these Services with counters$/,
    ],
    ['the mode counts nothing', 'nftables', {}, /nothing counts new connections in nftables mode/],
  ])('are missing if %s, with the reason', async (_, mode, texts, reason) => {
    const {transport} = printing(texts);
    const {counts, problem} = await countEndpoints({...run, transport, api: iptables.api, mode});
    expect(counts).toEqual([]);
    expect(problem).toMatch(reason);
  });
});
