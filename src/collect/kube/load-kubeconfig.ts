import {homedir} from 'node:os';
import {delimiter, join} from 'node:path';
import {emptyKubeconfig, type Kubeconfig, KubeconfigError} from './kubeconfig.ts';
import {readKubeconfigFile} from './read-kubeconfig-file.ts';

export interface LoadedKubeconfig {
  readonly config: Kubeconfig;
  /** Text for messages: which files were looked for, and which of them do not exist. */
  readonly tried: string;
}

/**
 * Reads the files kubectl would read: `--kubeconfig` (must exist), or the list in KUBECONFIG, or ~/.kube/config. Follows client-go's
 * ClientConfigLoadingRules.Load: the first file that has a name wins it whole, missing files are skipped.
 */
export function loadKubeconfig(explicit: string | undefined, environment: NodeJS.ProcessEnv): LoadedKubeconfig {
  const paths = explicit ? [explicit] : kubeconfigPaths(environment);
  const files = paths.map(path => ({path, content: readKubeconfigFile(path)}));
  const [only] = files;
  if (explicit && only?.content === null) {
    throw new KubeconfigError(`there is no kubeconfig ${explicit}. Was the path given to --kubeconfig right?`);
  }
  return {
    config: files.map(({content}) => content ?? emptyKubeconfig).reduce(merge, emptyKubeconfig),
    tried: files.map(({path, content}) => (content === null ? `${path} (not found)` : path)).join(', '),
  };
}

/** An empty KUBECONFIG counts as unset. */
function kubeconfigPaths(environment: NodeJS.ProcessEnv): readonly string[] {
  const list = environment['KUBECONFIG'] ?? '';
  if (list === '') return [join(environment['HOME'] || homedir(), '.kube', 'config')];
  return [...new Set(list.split(delimiter))].filter(path => path !== '');
}

function merge(first: Kubeconfig, second: Kubeconfig): Kubeconfig {
  return {
    currentContext: first.currentContext || second.currentContext,
    clusters: new Map([...second.clusters, ...first.clusters]),
    users: new Map([...second.users, ...first.users]),
    contexts: new Map([...second.contexts, ...first.contexts]),
  };
}
