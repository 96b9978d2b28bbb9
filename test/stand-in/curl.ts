import type {ExecReply} from './exec.ts';

/** What curl prints for its URLs, each followed by what `-w` says; a page that is null is one that nobody serves. */
export function curlReply(argv: readonly string[], pageAt: (url: string) => Buffer | string | null): ExecReply {
  const pages = argv.filter(word => word.startsWith('http://')).map(url => ({url, page: pageAt(url)}));
  if (pages.some(({page}) => page === null)) return {exitCode: 7, stderr: 'curl: (7) Failed to connect'};
  const format = argv.includes('-w') ? (argv[argv.indexOf('-w') + 1] ?? '') : '';
  const after = (url: string) => Buffer.from(format.replaceAll('\\n', '\n').replace('%{url_effective}', url));
  return {stdout: Buffer.concat(pages.flatMap(({url, page}) => [Buffer.from(page ?? ''), after(url)]))};
}
