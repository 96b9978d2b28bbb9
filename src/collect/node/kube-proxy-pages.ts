import {Buffer} from 'node:buffer';
import type {NodeCommand, CommandVariant} from './node-command.ts';

const curl = ['curl', '-sS', '--noproxy', '*', '--max-time', '5'];

/** What kube-proxy serves on a node, to itself alone. */
interface KubeProxyPage {
  readonly file: string;
  readonly url: string;
  /** What of it is kept. */
  readonly keep?: (body: Buffer) => Buffer | null;
}

const pages: readonly KubeProxyPage[] = [
  {file: 'healthz.json', url: 'http://127.0.0.1:10256/healthz'},
  {file: 'metrics', url: 'http://127.0.0.1:10249/metrics', keep: onlyKubeProxyMetrics},
  {file: 'configz.json', url: 'http://127.0.0.1:10249/configz'},
  {file: 'proxy-mode', url: 'http://127.0.0.1:10249/proxyMode'},
];

/** Each page by itself. */
export const kubeProxyPages: readonly NodeCommand[] = pages.map(({file, url, keep}) => ({file, variants: httpVariants(url, keep)}));

/** Several files that one run of a program may give. What it does not give is read file by file. */
export interface JointCommand {
  readonly files: readonly string[];
  readonly argv: readonly string[];
  /** What is kept of each file; null for "nothing to see". */
  readonly split: (output: Buffer) => ReadonlyMap<string, Buffer | null>;
}

/** All pages of kube-proxy by one curl, which says after each where it got it from. It fails if it does not get all of each. */
export const allPages: JointCommand = {
  files: pages.map(({file}) => file),
  argv: [...curl, '--fail-early', '-w', '\\nsvc-trace %{url_effective}\\n', ...pages.map(({url}) => url)],
  split: output => new Map(pagesIn(output).flatMap(({url, body}) => fileOfPage(url, body))),
};

function pagesIn(output: Buffer): readonly {readonly url: string; readonly body: Buffer}[] {
  let start = 0;
  return [...output.toString('latin1').matchAll(/\nsvc-trace (\S+)\n/g)].map(({0: mark, 1: url = '', index}) => {
    const body = output.subarray(start, index);
    start = index + mark.length;
    return {url, body};
  });
}

function fileOfPage(url: string, body: Buffer): readonly (readonly [string, Buffer | null])[] {
  const page = pages.find(candidate => candidate.url === url);
  return page === undefined ? [] : [[page.file, kept(body, page.keep)]];
}

/** An answer of any status that is JSON or text is kept, as kube-proxy's 503 is one too: an error page is not. */
function kept(body: Buffer, keep: (body: Buffer) => Buffer | null = all => all): Buffer | null {
  return /^(?:404 page not found|\s*<)/.test(body.toString('latin1', 0, 100)) ? null : keep(body);
}

function httpVariants(url: string, keep: KubeProxyPage['keep']): readonly CommandVariant[] {
  const join = (outputs: readonly Buffer[]) => kept(Buffer.concat(outputs), keep);
  return [
    {commands: [[...curl, url]], join},
    {commands: [['wget', '-q', '-O', '-', '-T', '5', url]], join},
  ];
}

/** The rest is about Go and HTTP, and long. */
function onlyKubeProxyMetrics(body: Buffer): Buffer | null {
  const lines = body.toString('utf8').split('\n');
  return Buffer.from(
    lines
      .filter(line => line.startsWith('kubeproxy_') && !/_bucket\{/.test(line))
      .map(line => `${line}\n`)
      .join(''),
  );
}
