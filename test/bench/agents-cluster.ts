// `agents-cluster.ts SIZE`: a made-up cluster behind an API server, and an agent of each node that has found nothing, in one process.
import {mkdtempSync, rmSync} from 'node:fs';
import https from 'node:https';
import type {AddressInfo} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import type {AgentResult} from '../../src/model/node-result.ts';
import {nodeResultText} from '../../src/render/json.ts';
import {startApiServer} from '../stand-in/api-server.ts';
import {certificate} from '../stand-in/certificates.ts';
import {bundleObjects} from '../stand-in/bundle-objects.ts';
import {buildCluster} from './build-cluster.ts';
import type {ClusterSize} from './cluster-size.ts';
import {writeApiObjects} from './synthetic-cluster.ts';

interface AgentsSize extends ClusterSize {
  readonly agents: number;
}

const reader = {metadata: {namespace: 'svc-trace', name: 'svc-trace-reader'}};
const tls = {cert: certificate('server.crt'), key: certificate('server.key')};

if (process.send !== undefined) {
  const {agents, ...size} = JSON.parse(process.argv[2] ?? '') as AgentsSize;
  const names = Array.from({length: agents}, (_, index) => `node-${index}`);
  const ports = new Map(await Promise.all(names.map(async name => [podOf(name), await answer(name)] as const)));
  const objects = {
    ...objectsOf(size),
    nodes: names.map(name => ({metadata: {name}})),
    pods: names.map(agentPod),
    serviceaccounts: [reader],
  };
  const server = await startApiServer({objects, proxy: ({metadata}) => ({port: ports.get(metadata.name) ?? 1})});
  process.on('disconnect', () => void server.close().then(() => process.exit()));
  process.send({kubeconfig: server.kubeconfig});
}

function objectsOf(size: ClusterSize): ReturnType<typeof bundleObjects> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-bench-api-'));
  try {
    writeApiObjects(folder, buildCluster(size));
    return bundleObjects(folder);
  } finally {
    rmSync(folder, {recursive: true});
  }
}

function podOf(node: string): string {
  return `svc-trace-agent-${node}`;
}

function agentPod(node: string): object {
  return {
    metadata: {namespace: 'svc-trace', name: podOf(node), labels: {'app.kubernetes.io/name': 'svc-trace-agent'}},
    spec: {nodeName: node, hostNetwork: true, containers: [{name: 'agent', ports: [{name: 'https', containerPort: 10_270}]}]},
    status: {phase: 'Running', conditions: [{type: 'Ready', status: 'True'}]},
  };
}

/** Resolves to the port. */
async function answer(node: string): Promise<number> {
  const server = https.createServer(tls, (_, response) => {
    response.setHeader('content-type', 'application/json').end(nodeResultText(resultOf(node), Date.now(), null));
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

function resultOf(node: string): AgentResult {
  const settings = Object.fromEntries(settingNames.map(name => [name, {value: 'true', source: 'kube-proxy default'}]));
  const about = {name: node, status: 'checked', proxyMode: 'iptables', kubeProxyVersion: 'v1.36.2', backend: 'nft'} as const;
  return {
    tool: {name: 'svc-trace', version: '0.1.0'},
    report: {...about, families: ['IPv4', 'IPv6'], rules: 766_921, chains: 260_000, settings},
    ...{findings: [], problems: [], proxy: {version: {text: 'v1.36.2', minor: 36, patch: 2}, gates: {}}},
    ...{judgedAt: Date.now(), apiCurrentAt: Date.now(), seconds: 2, intervalSeconds: 60},
    seen: {services: '999999999', endpointSlices: '999999999'},
  };
}

const settingNames = [
  ...['version', 'mode', 'clusterCIDRs', 'detectLocalMode', 'bridgeInterface', 'interfaceNamePrefix', 'masqueradeAll', 'masqueradeBit'],
  ...['localhostNodePorts', 'nodePortAddresses', 'bindAddress', 'nodeName', 'tcpBeLiberal', 'featureGates', 'zone'],
];
