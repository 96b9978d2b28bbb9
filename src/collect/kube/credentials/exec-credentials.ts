import process from 'node:process';
import {bearer, type ClientCertificate, type Credential, type Credentials} from './credentials.ts';
import {ApiError} from '../kube-api.ts';
import type {ExecConfig} from '../kubeconfig.ts';

/** The input and environment of a plugin. */
export interface PluginSurroundings {
  readonly environment: NodeJS.ProcessEnv;
  /** `spec.cluster` of KUBERNETES_EXEC_INFO, for plugins with provideClusterInfo. */
  readonly cluster: object;
  /** Whether the user can answer a plugin's question. */
  readonly interactive: boolean;
  /** The stderr of a plugin is not shown. */
  readonly quiet: boolean;
}

interface PluginOptions extends PluginSurroundings {
  /** The certificate and key of the kubeconfig, if the plugin returns none. */
  readonly certificate: ClientCertificate | null;
}

interface PluginAnswer {
  readonly credential: Credential;
  /** In milliseconds since 1970; null if it does not expire. */
  readonly expires: number | null;
}

/** Runs a credential plugin when credentials are first needed, have expired or were refused. Follows client-go's exec.Authenticator. */
export function execCredentials(config: ExecConfig, options: PluginOptions): Credentials {
  let answer: Promise<PluginAnswer> | null = null;
  const end = new AbortController();
  const ask = () => {
    const asked = runPlugin(config, {...options, signal: end.signal});
    answer = asked;
    asked.catch(() => {
      if (answer === asked) answer = null;
    });
    return asked;
  };
  // If many requests find it outdated, only one renews it.
  const askInPlaceOf = (stale: Promise<PluginAnswer>) => (answer === null || answer === stale ? ask() : answer);
  const current = async () => {
    if (answer === null) return (await ask()).credential;
    const held = answer;
    const {credential, expires} = await held;
    return expires !== null && expires < Date.now() ? (await askInPlaceOf(held)).credential : credential;
  };
  return {
    description: `the credential plugin ${config.command}`,
    current,
    close: () => end.abort(),
    async renew(refused) {
      const held = answer ?? ask();
      if ((await held).credential === refused) await askInPlaceOf(held);
      return true;
    },
  };
}

async function runPlugin(config: ExecConfig, options: PluginOptions & {readonly signal: AbortSignal}): Promise<PluginAnswer> {
  const {command = '', apiVersion = ''} = config;
  const interactive = isInteractive(config, options);
  const spec = {...(config.provideClusterInfo ? {cluster: options.cluster} : {}), interactive};
  const {execa} = await import('execa');
  if (options.signal.aborted) throw pluginError('stopped');
  // What a plugin has started ends with it: they are a group. One that asks must stay in the group of the terminal.
  const isGroup = !interactive && process.platform !== 'win32';
  const running = execa(command, config.args ?? [], {
    env: {
      ...options.environment,
      ...Object.fromEntries((config.env ?? []).map(({name, value}) => [name, value])),
      KUBERNETES_EXEC_INFO: JSON.stringify({kind: 'ExecCredential', apiVersion, spec}),
    },
    extendEnv: false,
    // A plugin asks questions on stderr: stdout is for the credential.
    stdio: [interactive ? 'inherit' : 'ignore', 'pipe', options.quiet ? 'ignore' : 'inherit'],
    reject: false,
    detached: isGroup,
    // One that asks is asked to end first: it may have changed the terminal.
    forceKillAfterDelay: 500,
  });
  const end = () => {
    const {pid} = running;
    if (isGroup && pid !== undefined) endGroup(pid);
    else running.kill();
    running.stdout.destroy();
  };
  options.signal.addEventListener('abort', end, {once: true});
  process.once('exit', end);
  const result = await running;
  options.signal.removeEventListener('abort', end);
  process.off('exit', end);
  if (result.failed) throw failure(config, result);
  return answerOf(result.stdout, config, options.certificate);
}

/** It may have ended meanwhile. */
function endGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

function isInteractive({interactiveMode = 'IfAvailable', command}: ExecConfig, {interactive}: PluginSurroundings): boolean {
  if (interactiveMode === 'Always' && !interactive) {
    throw pluginError(`the credential plugin ${command} must be able to ask, and standard input is no terminal`);
  }
  return interactiveMode !== 'Never' && interactive;
}

function failure(
  {command, installHint}: ExecConfig,
  result: {readonly code?: string | undefined; readonly exitCode?: number | undefined; readonly originalMessage?: string | undefined},
): ApiError {
  const hint = installHint ? `\n${installHint.trim()}` : '';
  if (result.code === 'ENOENT')
    return pluginError(`the credential plugin ${command} of the kubeconfig is not installed, or not on PATH${hint}`);
  const how = result.exitCode === undefined ? (result.originalMessage ?? 'it was stopped') : `exit code ${result.exitCode}`;
  return pluginError(`the credential plugin ${command} of the kubeconfig failed: ${how}. Log in again, or run it by hand to see why.`);
}

function answerOf(stdout: string, {command, apiVersion}: ExecConfig, fallback: ClientCertificate | null): PluginAnswer {
  const {kind, apiVersion: version, status} = parse(stdout, command);
  if (kind !== 'ExecCredential') throw pluginError(`the credential plugin ${command} printed no ExecCredential`);
  if (version !== apiVersion)
    throw pluginError(`the credential plugin ${command} answered in ${version}, and the kubeconfig asks for ${apiVersion}`);
  const {token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp} = status ?? {};
  if (!token && !cert && !key) throw pluginError(`the credential plugin ${command} gave neither a token nor a client certificate`);
  if (!cert !== !key) throw pluginError(`the credential plugin ${command} gave only one of certificate and key`);
  return {
    credential: {authorization: token ? bearer(token) : null, certificate: cert && key ? {cert, key} : fallback},
    expires: expirationTimestamp ? Date.parse(expirationTimestamp) : null,
  };
}

interface ExecCredential {
  readonly kind?: string;
  readonly apiVersion?: string;
  readonly status?: {
    readonly token?: string;
    readonly clientCertificateData?: string;
    readonly clientKeyData?: string;
    readonly expirationTimestamp?: string;
  } | null;
}

function parse(stdout: string, command: string | undefined): ExecCredential {
  try {
    return (JSON.parse(stdout) as ExecCredential | null) ?? {};
  } catch (error) {
    // Its output may contain a secret, so it is not shown.
    throw pluginError(`the credential plugin ${command} printed something that is no JSON`, error);
  }
}

function pluginError(message: string, cause?: unknown): ApiError {
  return new ApiError(message, {status: null, reason: 'Unauthorized', cause});
}

/** Whether a plugin may ask questions: standard input is a terminal. */
export function canAsk(): boolean {
  return process.stdin.isTTY === true;
}
