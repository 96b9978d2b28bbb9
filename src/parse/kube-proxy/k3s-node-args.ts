import {readJson} from '../json-text.ts';

/** The command line of k3s or RKE2, which it writes into an annotation of the Node, merged with its configuration file. */
export interface NodeArgs {
  /** A server, which passes cluster-wide settings to the agents. */
  readonly isServer: boolean;
  readonly disablesKubeProxy: boolean;
  /** `--cluster-cidr` of a server; null if its default applies. */
  readonly clusterCIDR: string | null;
  /** The flags that are passed on to kube-proxy, such as `--masquerade-all`. */
  readonly kubeProxyArgs: readonly string[];
}

/** Reads the annotation `k3s.io/node-args`: a JSON list in which `--flag=value` is split in two. Null if it is invalid. */
export function parseNodeArgs(text: string): NodeArgs | null {
  const words: unknown = readJson(text);
  if (!Array.isArray(words) || !words.every(word => typeof word === 'string')) return null;
  const valuesOf = (flag: string): readonly string[] =>
    words.flatMap((word, index) =>
      word === flag ? [words[index + 1] ?? ''] : word.startsWith(`${flag}=`) ? [word.slice(flag.length + 1)] : [],
    );
  return {
    isServer: words[0] === 'server',
    disablesKubeProxy: valuesOf('--disable-kube-proxy').some(value => value !== 'false'),
    clusterCIDR: valuesOf('--cluster-cidr').join(',') || null,
    kubeProxyArgs: valuesOf('--kube-proxy-arg').map(arg => `--${arg.replace(/^-+/, '')}`),
  };
}
