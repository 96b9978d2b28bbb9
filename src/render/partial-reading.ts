import type {Report} from '../model/report.ts';
import {newestKnownMinor} from '../model/proxy-config.ts';
import {escapeText} from './escape.ts';
import {nodeList} from './node-list.ts';

/** What limits the report: nodes of which only some chains were read, or whose kube-proxy is newer than the known rules; null if nothing. */
export function partialReading(report: Report): string | null {
  const limits = [readInPart(report), newerProxies(report)].filter(text => text !== '');
  return limits.length === 0 ? null : limits.join('\n');
}

function newerProxies({nodes}: Report): string {
  const isNewer = (version = ''): boolean => Number(/^v1\.(\d+)/.exec(version)?.[1] ?? 0) > newestKnownMinor;
  const newer = Map.groupBy(
    nodes.filter(({kubeProxyVersion}) => isNewer(kubeProxyVersion)),
    ({kubeProxyVersion}) => kubeProxyVersion ?? '',
  );
  return [...newer]
    .map(
      ([version, all]) =>
        `kube-proxy ${escapeText(version)} on ${nodeList(all.map(({name}) => name))} is newer than the newest known rules: it was checked against those of v1.${newestKnownMinor}.`,
    )
    .join('\n');
}

function readInPart({nodes}: Report): string {
  const names = nodes.filter(({read}) => read === 'reachable').map(({name}) => name);
  if (names.length === 0) return '';
  return `Only the chains that packets to the named Services can reach were read on ${nodeList(names)}. Rules in other chains of table nat, third-party rules too, were not seen; --full reads all rules.`;
}
