import type {ChainNames} from './chain-names.ts';
import {servicePortPattern} from './chain-names.ts';
import {flagValue} from './rule-line.ts';

/**
 * Learns from the rules of a dump what their chain names are derived from: the Service ports in comments, and the endpoints of DNAT rules.
 * This includes Services and endpoints that are no longer in the API.
 */
export function learnDump(lines: Iterable<string>, chains: ChainNames): void {
  const rewrites: string[] = [];
  const picks: string[] = [];
  const seen = new Set<string>();
  for (const line of lines) {
    if (!line.includes('KUBE-')) continue;
    const comment = flagValue(line, '--comment');
    if (comment?.includes('/') && !seen.has(comment)) {
      seen.add(comment);
      for (const word of comment.replaceAll('"', '').split(' ')) if (servicePortPattern.test(word)) chains.learn(word);
    }
    if (line.includes('-j KUBE-SEP-')) picks.push(line);
    else if (line.includes('--to-destination ')) rewrites.push(line);
  }
  const pickedBy = new Map<string, string>();
  for (const line of picks) learnPick(line, chains, pickedBy);
  for (const line of rewrites) learnRewrite(line, chains, pickedBy);
}

/** `-A KUBE-SVC-… --comment "shop/web:http -> 10.244.1.5:8080" … -j KUBE-SEP-…` */
function learnPick(line: string, chains: ChainNames, pickedBy: Map<string, string>): void {
  const [, from = '', to = ''] = /-A (\S+) .*-j (\S+)/.exec(line) ?? [];
  pickedBy.set(to, from);
  const port = chains.portOf(from);
  const [, endpoint] = / -> (\S+?)"/.exec(line) ?? [];
  if (port !== null && endpoint !== undefined) chains.learnEndpoint(port.name, port.protocol, endpoint);
}

/** The DNAT rule of an endpoint. Its Service port is in its comment, or is that of the chain that jumps to it. */
function learnRewrite(line: string, chains: ChainNames, pickedBy: ReadonlyMap<string, string>): void {
  const chain = /-A (\S+)/.exec(line)?.[1] ?? '';
  const target = flagValue(line, '--to-destination');
  if (target === null || chains.knows(chain)) return;
  const named = flagValue(line, '--comment')?.replaceAll('"', '');
  const protocol = flagValue(line, '-p');
  if (named !== undefined && protocol !== null) chains.learnEndpoint(named, protocol, target);
  const port = chains.portOf(pickedBy.get(chain) ?? '');
  if (port !== null) chains.learnEndpoint(port.name, port.protocol, target);
}
