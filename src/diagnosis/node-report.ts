import type {NodeAnalysis} from '../analyze/analyze-node.ts';
import type {ProxyConfig, Setting} from '../model/proxy-config.ts';
import type {NodeReport} from '../model/report.ts';
import {type NodeDump, nothingInIt} from '../model/snapshot.ts';

export function nodeReport(
  {name, missing, via}: NodeDump,
  {config, status, rulesets, families: evaluated, counts}: NodeAnalysis,
): NodeReport {
  const [first] = rulesets.values();
  const backend = first?.backend ?? null;
  // Files are read side by side: which is done first is chance.
  const notRead = (missing ?? []).filter(({reason}) => reason !== nothingInIt).toSorted((a, b) => (a.file < b.file ? -1 : 1));
  return {
    name,
    status: status.kind === 'not-served' ? 'unsupported' : status.kind,
    ...(status.kind === 'checked' ? {} : {reason: status.reason}),
    proxyMode: config.mode.value,
    kubeProxyVersion: config.version.value.text,
    ...(backend === null ? {} : {backend}),
    families: evaluated,
    ...counts,
    ...([...rulesets.values()].some(({isByChain}) => isByChain) ? {read: 'reachable' as const} : {}),
    settings: settingsOf(config),
    ...(via === undefined || via === null ? {} : {via}),
    ...(notRead.length === 0 ? {} : {notRead}),
  };
}

function settingsOf(config: ProxyConfig): Readonly<Record<string, Setting<string>>> {
  // The settings of IPVS do not matter in other modes.
  const entries = Object.entries(config).filter(([name]) => !name.startsWith('ipvs') || config.mode.value === 'ipvs');
  return Object.fromEntries(entries.map(([name, {value, source}]) => [name, {value: settingText(value), source}]));
}

function settingText(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value ?? '');
  if (Array.isArray(value)) return value.join(',');
  if ('text' in value) return String(value.text);
  return Object.entries(value)
    .map(([name, on]) => `${name}=${on}`)
    .join(',');
}
