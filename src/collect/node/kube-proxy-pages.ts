import {Buffer} from 'node:buffer';
import {type JointCommand, markedParts, type NodeCommand} from './node-command.ts';

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

/** The part of an answer to keep. With any status it is kept if it is JSON or text, because kube-proxy's 503 is one too; null for an error page. */
export function keptOf({keep}: KubeProxyPage, body: Buffer): Buffer | null {
  if (/^(?:404 page not found|\s*<)/.test(body.toString('latin1', 0, 100))) return null;
  return keep === undefined ? body : keep(body);
}

function urlOf({port, path}: KubeProxyPage): string {
  return `http://127.0.0.1:${port}${path}`;
}

/** Each page by itself, with a program on the node. */
export const kubeProxyPages = pages.map((page): NodeCommand => {
  const join = (outputs: readonly Buffer[]) => keptOf(page, Buffer.concat(outputs));
  const programs = [curl, ['wget', '-q', '-O', '-', '-T', '5']];
  return {file: page.file, variants: programs.map(argv => ({commands: [[...argv, urlOf(page)]], join}))};
});

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
  split: (output, isPart) => {
    const found = markedParts(output, /\nsvc-trace (\S+)\n/g).flatMap(([body, [, url]]) =>
      pages.flatMap(page => (urlOf(page) === url ? [[page.file, keptOf(page, body)] as const] : [])),
    );
    // After a failure too, curl prints the URL: that page may be incomplete.
    return new Map(isPart ? found.slice(0, -1) : found);
  },
};

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
