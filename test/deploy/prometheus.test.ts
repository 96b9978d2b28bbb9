import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {createServer} from 'node:net';
import type {AddressInfo} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {execa} from 'execa';
import {dump} from 'js-yaml';
import {afterAll, beforeAll, expect, test} from 'vitest';
import {rulesFile} from '../../tools/prometheus-rule-text.ts';
import {capturePath} from '../fixtures.ts';
import {describeWith} from '../require.ts';
import {certificateFile} from '../stand-in/certificates.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';
import {startAgent} from './agent-run.ts';

interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [number, string];
}

/** A certificate that an authority has signed. */
const certificateArgs = ['--tls-cert-file', certificateFile('server.crt'), '--tls-private-key-file', certificateFile('server.key')];

/** One agent finds a Service wrong, the other its whole node. */
const agents = [
  {capture: 'faults/missing-endpoint', node: 'node-a'},
  {capture: 'faults/no-prerouting-hook', node: 'node-b'},
];

describeWith(['prometheus'], 'a real Prometheus that scrapes real agents', () => {
  const resources = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-prometheus-'));
  let url: string;

  beforeAll(async () => {
    resources.defer(() => rmSync(folder, {recursive: true}));
    const targets: object[] = [];
    for (const {capture, node} of agents) {
      const bundle = capturePath(capture);
      const cluster = resources.use(
        await startBundleCluster(bundle, {
          tokens: {scraper: {user: 'prometheus'}, nobody: {user: 'nobody'}},
          allowUrl: ({path}, {name}) => name === 'admin' || (name === 'prometheus' && path === '/metrics'),
        }),
      );
      const args = ['agent', '--listen', '127.0.0.1:0', '--interval', '1s', ...certificateArgs];
      const {port} = resources.use(await startAgent({bundle, node, kubeconfig: cluster.kubeconfig, args}));
      // The labels that the operator gives to what a PodMonitor finds.
      targets.push({targets: [`127.0.0.1:${port}`], labels: {namespace: 'svc-trace', pod: `svc-trace-agent-${port}`, container: 'agent'}});
    }
    url = await startPrometheus(targets);
    await answerTo('count(ALERTS{alertname="SvcTraceFault"}) == 2');
  });
  afterAll(() => resources.disposeAsync());

  async function startPrometheus(targets: readonly object[]): Promise<string> {
    const port = await freePort();
    const config = {
      global: {scrape_interval: '1s', evaluation_interval: '1s'},
      rule_files: [rulesFile],
      scrape_configs: [
        job('svc-trace-agent', targets, {token: 'scraper'}),
        job('without-token', targets, {}),
        job('without-rights', targets, {token: 'nobody'}),
        {...job('without-verification', targets, {token: 'scraper'}), tls_config: {insecure_skip_verify: true}},
        {...job('of-another-authority', targets, {token: 'scraper'}), tls_config: {ca_file: certificateFile('other-ca.crt')}},
        {...job('plain-http', targets, {token: 'scraper'}), scheme: 'http', tls_config: {}},
      ],
    };
    writeFileSync(join(folder, 'prometheus.yml'), dump(config));
    const options = [`--config.file=${join(folder, 'prometheus.yml')}`, `--storage.tsdb.path=${join(folder, 'data')}`];
    const running = execa('prometheus', [...options, `--web.listen-address=127.0.0.1:${port}`], {
      cwd: folder,
      reject: false,
      stdio: 'ignore',
    });
    resources.defer(async () => {
      running.kill('SIGTERM');
      await running;
    });
    return `http://127.0.0.1:${port}`;
  }

  /** As docs/deploy.md has it, with a certificate that is verified. */
  function job(name: string, targets: readonly object[], {token}: {readonly token?: string}) {
    const file = join(folder, `token-${token}`);
    if (token !== undefined) writeFileSync(file, token);
    return {
      job_name: name,
      honor_labels: true,
      scheme: 'https',
      ...(token === undefined ? {} : {authorization: {credentials_file: file}}),
      tls_config: {ca_file: certificateFile('ca.crt'), server_name: 'localhost'},
      static_configs: targets,
    };
  }

  /** Asks until there is an answer that is not empty. */
  async function answerTo(query: string): Promise<readonly Sample[]> {
    for (;;) {
      const answer = await fetch(`${url}/api/v1/query?query=${encodeURIComponent(query)}`).catch(() => null);
      const {data} = answer?.ok ? ((await answer.json()) as {readonly data: {readonly result: readonly Sample[]}}) : {data: {result: []}};
      if (data.result.length > 0) return data.result;
      await new Promise(resolve => setTimeout(resolve, 100));
    }
  }

  test('keeps the namespace and the node of a finding, and adds none', async () => {
    const found = await answerTo('svc_trace_findings{severity="error"}');
    const labels = found.map(({metric: {code, namespace = '', service = '', node}}) => [code, namespace, service, node]);
    expect(labels).toContainEqual(['ST202', 'shop', 'web', 'node-a']);
    expect(labels).toContainEqual(['ST301', '', '', 'node-b']);
  });

  test('gets metrics only with a token that may get them, and only over TLS that it trusts or is told to trust', async () => {
    await answerTo('count(up) == 12');
    const up = async () =>
      Object.fromEntries((await answerTo('min by (job) (up)')).map(({metric: {job: name = ''}, value: [, value]}) => [name, value]));
    // On a busy machine a scrape may take more than the second that it has.
    await expect.poll(up).toEqual({
      ...{'svc-trace-agent': '1', 'without-verification': '1'},
      ...{'without-token': '0', 'without-rights': '0', 'of-another-authority': '0', 'plain-http': '0'},
    });
    await answerTo('count(count by (code) (svc_trace_agent_requests_total{code=~"40."} > 0)) == 2');
    const refusals = await answerTo('max by (code) (svc_trace_agent_requests_total{code=~"40."}) > 0');
    expect(refusals.map(({metric: {code}}) => code).sort()).toEqual(['401', '403']);
  });

  test('has a pending alert for each fault, and none for the agents', async () => {
    const alerts = async () =>
      (await answerTo('ALERTS'))
        .map(({metric: {alertname, code = '', namespace = '', service = ''}}) => [alertname, code, namespace, service].join(' ').trim())
        .filter(text => !text.startsWith('SvcTraceHazard '))
        .sort();
    await expect.poll(alerts).toEqual(['SvcTraceFault ST202 shop web', 'SvcTraceFault ST301']);
  });
});

function freePort(): Promise<number> {
  return new Promise(resolve => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const {port} = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
