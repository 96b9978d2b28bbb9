import {parseChainName} from '../../expect/iptables/chain-names.ts';
import type {NarrowTo} from '../narrow-to.ts';

/**
 * An `iptables-save` without what kube-proxy wrote for other Services than these: their chains, and the rules of shared chains that lead
 * there. Endpoint chains that nothing leads to stay, for nobody can tell whose they are.
 */
export function narrowIptablesSave(text: string, to: NarrowTo): string {
  const lines = text.split('\n');
  const [others, own] = [new Set<string>(), new Set<string>()];
  const isOthers = lines.map(line => isRule(line) && isOfOthers(line, to));
  for (const [index, line] of lines.entries()) {
    const target = isRule(line) ? targetOf(line) : null;
    if (target?.startsWith('KUBE-SEP-')) (isOthers[index] ? others : own).add(target);
  }
  const isGone = (chain: string): boolean => {
    const parsed = parseChainName(chain);
    if (parsed === null) return false;
    return parsed.role === 'SEP' ? others.has(chain) && !own.has(chain) : !to.hashes.has(parsed.hash);
  };
  const kept = lines.filter((line, index) => !isOthers[index] && !((line.startsWith(':') || isRule(line)) && isGone(chainOf(line))));
  return kept.join('\n');
}

/** Of other Services, whatever endpoint chains there are. */
function isOfOthers(line: string, {services, hashes}: NarrowTo): boolean {
  const chain = chainOf(line);
  if (!chain.startsWith('KUBE-')) return false;
  const parsed = parseChainName(chain);
  if (parsed !== null) return parsed.role !== 'SEP' && !hashes.has(parsed.hash);
  const target = parseChainName(targetOf(line) ?? '');
  if (target !== null) return !hashes.has(target.hash);
  const [, service] = /--comment "?([^\s"/]+\/[^\s":]+)/.exec(line) ?? [];
  return service !== undefined && !services.has(service);
}

function isRule(line: string): boolean {
  return line.startsWith('-A ') || (line.startsWith('[') && line.includes('] -A '));
}

function chainOf(line: string): string {
  if (line.startsWith(':')) return line.slice(1, line.indexOf(' '));
  const from = line.indexOf('-A ') + 3;
  const end = line.indexOf(' ', from);
  return end < 0 ? line.slice(from) : line.slice(from, end);
}

function targetOf(line: string): string | null {
  const at = line.lastIndexOf(' -j KUBE-');
  return at < 0 ? null : (line.slice(at + 4).split(' ', 1)[0] ?? null);
}
