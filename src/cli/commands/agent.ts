import process from 'node:process';
import {Flags} from '@oclif/core';
import {parseListenAddress} from '../../agent/agent-server.ts';
import type {ServingMode} from '../../agent/serve-agent.ts';
import {parseTimeout} from '../../collect/kube/kubeconfig.ts';
import {systemClock} from '../../run/clock.ts';
import {connectionFlags, transportFlags} from '../options/cluster-flags.ts';
import {inGroup, settingFlags, verboseFlag} from '../options/flags.ts';
import {evaluationOptions} from '../../run/options/evaluation-options.ts';
import {FindingChanges, watchLines} from '../../run/watch/watch-lines.ts';
import {escapeText} from '../../render/renderer.ts';
import {BaseCommand} from './base-command.ts';
import {wrongUse} from '../../run/wrong-use.ts';

export default class AgentCommand extends BaseCommand {
  static override summary = 'Check the node it runs on and serve the result';
  static override description =
    `For a DaemonSet. Watches the Services and EndpointSlices of the cluster, reads the rules of this node at every interval, and serves over HTTPS /metrics (Prometheus), /result (JSON, which "check --agents" collects), /healthz and /readyz. /metrics and /result need a bearer token whose owner may get these paths (TokenReview, SubjectAccessReview). It writes no files. It prints a line for each new or resolved finding. It runs until SIGTERM, then exits with 0.`;
  static override examples = ['<%= config.bin %> agent --node worker-1', '<%= config.bin %> agent --listen 10.0.0.7:10270 --interval 2m'];
  static override flags = {
    ...inGroup('AGENT', {
      node: Flags.string({description: 'name of the Node it runs on', env: 'NODE_NAME', required: true, helpValue: 'NAME'}),
      listen: Flags.string({
        description: 'address to listen on; without an address, all addresses',
        default: ':10270',
        helpValue: 'ADDRESS:PORT',
      }),
      'tls-cert-file': Flags.string({
        description:
          'certificate for HTTPS (PEM), with those of its authorities after it; read again when it changes. Default: a self-signed one',
        helpValue: 'FILE',
      }),
      'tls-private-key-file': Flags.string({description: 'private key of the certificate (PEM)', helpValue: 'FILE'}),
      'insecure-http': Flags.boolean({description: 'serve plain HTTP, to everyone who reaches the port: no TLS and no tokens'}),
      interval: Flags.string({
        description: 'check the node again after this time even if nothing changed, give or take a tenth',
        default: '60s',
        helpValue: 'DURATION',
      }),
      settle: Flags.string({
        description: 'grace period: how long kube-proxy may take to follow a change; the node is checked this long after one',
        default: '15s',
        helpValue: 'DURATION',
      }),
      'endpoint-connections': Flags.boolean({
        description: 'export svc_trace_endpoint_connections_total: one time series on each node for each endpoint of each Service port',
        default: false,
      }),
    }),
    'node-timeout': transportFlags['node-timeout'],
    sudo: transportFlags.sudo,
    ...settingFlags,
    ...connectionFlags,
    verbose: verboseFlag('also infos'),
  };

  async run(): Promise<void> {
    const {flags} = await this.parse(AgentCommand);
    const listen = parseListenAddress(flags.listen);
    if (listen === null) throw wrongUse(`--listen ${flags.listen}: write ADDRESS:PORT or :PORT`);
    const durations = {
      intervalMs: durationOf('--interval', flags.interval, 1000),
      gracePeriodMs: durationOf('--settle', flags.settle, 0),
      timeoutMs: durationOf('--node-timeout', flags['node-timeout'], 1000),
    };
    const serving = servingMode(flags);
    const {overrides = {}} = evaluationOptions(flags);
    const changes = new FindingChanges(({severity}) => flags.verbose || severity !== 'info');
    const error = (text: string) => void process.stderr.write(`${escapeText(text.trimEnd())}\n`);
    const lines = watchLines(false, text => void process.stdout.write(text), error);
    const {runAgent} = await import('../../agent/run-agent.ts');
    await this.withCluster({...flags, quiet: true, 'no-progress': true}, ({cluster, signal}) =>
      runAgent({
        api: cluster.api,
        node: flags.node,
        listen,
        ...durations,
        sudo: flags.sudo,
        countsConnections: flags['endpoint-connections'],
        clock: systemClock,
        signal,
        options: {toolVersion: this.config.version, overrides},
        serving,
        onListening: (port, how) =>
          error(`svc-trace agent ${this.config.version} of node ${flags.node}: ${cluster.description}, port ${port}, ${how}`),
        onTrouble: error,
        onCheck: (check, at) =>
          check.kind === 'trouble' ? lines.trouble(check.message) : lines.show(check.report, changes.take(check.report, at), at),
      }),
    );
    // SIGTERM is its normal end.
    process.exitCode = 0;
  }
}

/** Throws a CLIError (exit 2). */
function servingMode(flags: {
  readonly 'insecure-http': boolean;
  readonly 'tls-cert-file'?: string | undefined;
  readonly 'tls-private-key-file'?: string | undefined;
}): ServingMode {
  const {'tls-cert-file': cert, 'tls-private-key-file': key} = flags;
  if (cert === undefined && key === undefined) return flags['insecure-http'] ? {kind: 'http'} : {kind: 'https', files: null};
  if (flags['insecure-http'])
    throw wrongUse('--insecure-http has no certificate: use it without --tls-cert-file and --tls-private-key-file');
  if (cert === undefined) throw wrongUse('--tls-private-key-file needs --tls-cert-file');
  if (key === undefined) throw wrongUse('--tls-cert-file needs --tls-private-key-file');
  return {kind: 'https', files: {cert, key}};
}

/** In milliseconds. Throws a CLIError (exit 2). */
function durationOf(flag: string, text: string, least: number): number {
  const duration = parseTimeout(text);
  if (duration === null || duration < least)
    throw wrongUse(`${flag} ${text}: write a duration of at least ${least / 1000}s, like 30s or 2m`);
  return duration;
}
