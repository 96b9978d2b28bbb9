import {closeSync, openSync, readFileSync, rmSync, statSync, writeFileSync} from 'node:fs';
import {CORE_SCHEMA, dump, load} from 'js-yaml';

interface AuthProviderChange {
  readonly userName: string;
  /** Fields of the auth-provider's config to set; all others stay. */
  readonly config: Readonly<Record<string, string>>;
}

/**
 * Writes new tokens into a kubeconfig, under kubectl's lock file. Throws if the file is locked, cannot be written, or has no such user.
 * Follows client-go's ModifyConfig.
 */
export function writeAuthProvider(path: string, {userName, config}: AuthProviderChange): void {
  const lock = `${path}.lock`;
  closeSync(openSync(lock, 'wx', 0o600));
  try {
    const document = load(readFileSync(path, 'utf8'), {schema: CORE_SCHEMA}) as KubeconfigFile;
    const provider = document.users?.find(({name}) => name === userName)?.user?.['auth-provider'];
    if (provider === undefined) throw new Error(`${path} has no auth-provider of the user "${userName}" any more`);
    provider.config = {...provider.config, ...config};
    writeFileSync(path, dump(document, {schema: CORE_SCHEMA, lineWidth: -1}), {mode: statSync(path).mode});
  } finally {
    rmSync(lock);
  }
}

interface KubeconfigFile {
  readonly users?: readonly {
    readonly name: string;
    readonly user?: {readonly 'auth-provider'?: {config?: Readonly<Record<string, string>> | null}};
  }[];
}
