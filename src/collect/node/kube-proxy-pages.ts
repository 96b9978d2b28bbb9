import {Buffer} from 'node:buffer';
import type {NodeCommand, CommandVariant, JointCommand} from './node-command.ts';

const curl = ['curl', '-sS', '--noproxy', '*', '--max-time', '5'];

/** A page that kube-proxy serves over HTTP on its node. */
export interface KubeProxyPage {
  /** The name in a bundle. */
  readonly file: string;
  readonly port: number;
  readonly path: string;
  /** The part to keep. */
  readonly keep?: (body: Buffer) => Buffer | null;
}

/** The shortest of a port first: it shows whether kube-proxy listens there. */
const pages: readonly KubeProxyPage[] = [
  {file: 'healthz.json', port: 10256, path: '/healthz'},
  {file: 'proxy-mode', port: 10249, path: '/proxyMode'},
  {file: 'configz.json', port: 10249, path: '/configz'},
  {file: 'metrics', port: 10249, path: '/metrics', keep: onlyKubeProxyMetrics},
];

export const kubeProxyPorts: readonly number[] = [...new Set(pages.map(({port}) => port))];

/** The page of a file; undefined for a file that is read in another way. */
export function pageOf(file: string): KubeProxyPage | undefined {
  return pages.find(page => page.file === file);
}

/** The part of an answer to keep; null for an error page. */
export function keptOf(page: KubeProxyPage, body: Buffer): Buffer | null {
  return kept(body, page.keep);
}

function urlOf({port, path}: KubeProxyPage): string {
  return `http://127.0.0.1:${port}${path}`;
}

/** Each page by itself, with a program on the node. */
export const kubeProxyPages: readonly NodeCommand[] = pages.map(page => ({
  file: page.file,
  variants: httpVariants(urlOf(page), page.keep),
}));

const [, ...pagesOfSettings] = pages;

/**
 * All pages of one port by one curl, which prints the URL after each. The other port is asked beside it: a kube-proxy that hangs answers at
 * neither.
 */
export const jointPages: JointCommand = {
  files: pagesOfSettings.map(({file}) => file),
  argv: [...curl, '--fail-early', '-w', '\\nsvc-trace %{url_effective}\\n', ...pagesOfSettings.map(urlOf)],
  keepsPart: true,
  // It could not connect, or got no answer or no whole one: then no other page would come either.
  isLast: exitCode => [7, 28, 52, 56].includes(exitCode),
  // After a failure too, curl prints the URL: that page may be incomplete.
  split: (output, isPart) =>
    new Map(
      pagesIn(output)
        .slice(0, isPart ? -1 : undefined)
        .flatMap(({url, body}) => fileOfPage(url, body)),
    ),
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
  const page = pages.find(candidate => urlOf(candidate) === url);
  return page === undefined ? [] : [[page.file, kept(body, page.keep)]];
}

/** An answer with any status is kept if it is JSON or text, because kube-proxy's 503 is one too; an error page is not. */
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

/** The other metrics are about Go and HTTP, and long. */
function onlyKubeProxyMetrics(body: Buffer): Buffer | null {
  const lines = body.toString('utf8').split('\n');
  return Buffer.from(
    lines
      .filter(line => line.startsWith('kubeproxy_') && !/_bucket\{/.test(line))
      .map(line => `${line}\n`)
      .join(''),
  );
}
