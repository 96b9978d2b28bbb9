import {checks} from '../../checks/all-checks.ts';
import type {DiagnoseOptions} from '../../diagnosis/diagnose-node.ts';
import type {ConfigOverrides} from '../../expect/resolve-proxy-config.ts';
import {parseCidr} from '../../model/address.ts';
import {oldestKnownMinor} from '../../model/proxy-config.ts';
import type {ParsedEvaluationFlags} from '../cluster-run.ts';
import {closest, wrongUse} from '../wrong-use.ts';

/** The options of `diagnose` that do not depend on the cluster. Throws a CLIError (exit 2) for an unknown code or an invalid version. */
export function evaluationOptions(flags: ParsedEvaluationFlags): Pick<DiagnoseOptions, 'overrides' | 'only' | 'skip'> {
  return {
    overrides: overridesOf(flags),
    only: flags.only === undefined ? undefined : new Set(flags.only.map(findingCode)),
    skip: flags.skip === undefined ? undefined : new Set(flags.skip.map(skipped)),
  };
}

/** A code, or with a Service: `ST101=shop/empty`. */
function skipped(text: string): string {
  const [code = '', service] = text.split('=', 2);
  if (service === undefined) return findingCode(code);
  if (!/^[^/\s]+\/[^/\s]+$/.test(service.trim()))
    throw wrongUse(`--skip ${text}: name the Service as NAMESPACE/NAME, as in ST101=shop/web`);
  return `${findingCode(code)}=${service.trim()}`;
}

/** The code of a finding by its code or name, in any case. Throws a CLIError (exit 2). */
export function findingCode(text: string): string {
  const wanted = text.trim().toLowerCase();
  const found = checks.find(({code, name}) => code.toLowerCase() === wanted || name === wanted);
  if (found !== undefined) return found.code;
  const known = checks.flatMap(({code, name}) => [code as string, name]);
  const near = /^st\d/.test(wanted) ? closest(wanted.toUpperCase(), known) : closest(wanted, known);
  throw wrongUse(`unknown finding "${text.trim()}"; "svc-trace explain" lists all`, near);
}

function overridesOf(flags: ParsedEvaluationFlags): ConfigOverrides {
  refuseInvalidSettings(flags);
  const version = flags['kube-proxy-version'];
  const given = {
    mode: flags['proxy-mode'],
    clusterCIDRs: flags['cluster-cidr']?.split(','),
    detectLocalMode: flags['detect-local-mode'],
    masqueradeAll: flags['masquerade-all'],
    masqueradeBit: flags['masquerade-bit'],
    nodePortAddresses: flags['nodeport-addresses']?.split(','),
    version,
    zone: flags.zone,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/**
 * Throws a CLIError (exit 2) that names the flag, the value and the valid values. A wrong value would become findings about the cluster.
 */
function refuseInvalidSettings(flags: ParsedEvaluationFlags): void {
  for (const {flag, isList, isValid, allowed} of rules) {
    const value = flags[flag];
    if (value === undefined) continue;
    const wrong = (isList ? value.split(',') : [value]).find(part => !isValid(part));
    if (wrong !== undefined) throw wrongUse(`--${flag}: "${wrong}" is not ${allowed}`);
  }
}

interface SettingRule {
  readonly flag: 'proxy-mode' | 'cluster-cidr' | 'nodeport-addresses' | 'kube-proxy-version' | 'zone';
  /** Several, with commas between them. */
  readonly isList?: true;
  readonly isValid: (part: string) => boolean;
  /** Describes a valid value, after "is not". */
  readonly allowed: string;
}

const modes: readonly string[] = ['iptables', 'ipvs', 'nftables', 'userspace', 'kernelspace'];
const keywords: readonly string[] = ['primary', 'localhost', 'all'];

const rules: readonly SettingRule[] = [
  {flag: 'proxy-mode', isValid: mode => modes.includes(mode), allowed: `one of ${modes.join(', ')}`},
  {flag: 'cluster-cidr', isList: true, isValid: isCidr, allowed: 'a CIDR such as 10.244.0.0/16 or fd00:10:244::/56'},
  {
    flag: 'nodeport-addresses',
    isList: true,
    isValid: part => keywords.includes(part) || isCidr(part),
    allowed: `a CIDR such as 192.0.2.0/24, or one of ${keywords.join(', ')}`,
  },
  {
    flag: 'kube-proxy-version',
    isValid: isVersion,
    allowed: `a kube-proxy version from 1.${oldestKnownMinor} on, such as v1.30.5 or 1.30`,
  },
  {flag: 'zone', isValid: isLabelValue, allowed: 'a value of a label'},
];

function isCidr(text: string): boolean {
  return text.includes('/') && parseCidr(text) !== null;
}

/** `v1.30.5`, `1.30`, also with a distribution's suffix: `v1.30.5+k3s1`, `v1.29.1-gke.1589000`. */
function isVersion(text: string): boolean {
  const [, minor] = /^v?1\.(\d{1,2})(?:\.\d{1,4})?(?:[-+][0-9A-Za-z.+-]+)?$/.exec(text) ?? [];
  return Number(minor) >= oldestKnownMinor;
}

function isLabelValue(text: string): boolean {
  return /^[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?$/.test(text);
}
