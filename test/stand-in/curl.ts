import type {ExecReply} from './exec.ts';

/** What curl prints for its URLs, each followed by what `-w` says; a page that is null is one of which nothing is known. */
export function curlReply(argv: readonly string[], pageAt: (url: string) => Buffer | string | null): ExecReply {
  const pages = argv.filter(word => word.startsWith('http://')).map(url => ({url, page: pageAt(url)}));
  if (pages.some(({page}) => page === null)) return {exitCode: 52, stderr: 'curl: (52) Empty reply from server'};
  const format = argv.includes('-w') ? (argv[argv.indexOf('-w') + 1] ?? '') : '';
  const after = (url: string) => Buffer.from(format.replaceAll('\\n', '\n').replace('%{url_effective}', url));
  return {stdout: Buffer.concat(pages.flatMap(({url, page}) => [Buffer.from(page ?? ''), after(url)]))};
}
