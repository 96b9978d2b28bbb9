import {readJson} from '../json-text.ts';

/** What k3s and RKE2 write of their own command line into an annotation of the Node, with that of the configuration file merged in. */
export interface NodeArgs {
  /** Of a server, which tells the agents what is the same for all. */
  readonly isServer: boolean;
  readonly disablesKubeProxy: boolean;
  /** `--cluster-cidr` of a server; null where its default counts. */
  readonly clusterCIDR: string | null;
  /** The flags that are handed on to kube-proxy, such as `--masquerade-all`. */
  readonly kubeProxyArgs: readonly string[];
}

/** Reads the annotation `k3s.io/node-args`: a JSON list in which `--flag=value` is split in two. Null when it is none. */
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
