import {Errors} from '@oclif/core';
import {parseCidr} from '../../model/address.ts';
import {escapeText} from '../../render/escape.ts';

/** The flags for kube-proxy settings that accept only some values. */
interface SettingValues {
  readonly 'proxy-mode'?: string | undefined;
  readonly 'cluster-cidr'?: string | undefined;
  readonly 'nodeport-addresses'?: string | undefined;
  readonly 'kube-proxy-version'?: string | undefined;
  readonly zone?: string | undefined;
}

/**
 * Throws a CLIError (exit 2) that names the flag, the value and the valid values. A wrong value would become findings about the cluster.
 */
export function refuseInvalidSettings(flags: SettingValues): void {
  for (const {flag, parts, isValid, allowed} of rules) {
    const value = flags[flag];
    const wrong = value === undefined ? undefined : parts(value).find(part => !isValid(part));
    if (wrong !== undefined) throw new Errors.CLIError(escapeText(`--${flag}: "${wrong}" is not ${allowed}`), {exit: 2});
  }
}

interface SettingRule {
  readonly flag: keyof SettingValues;
  readonly parts: (value: string) => readonly string[];
  readonly isValid: (part: string) => boolean;
  /** Describes a valid value, after "is not". */
  readonly allowed: string;
}

const modes: readonly string[] = ['iptables', 'ipvs', 'nftables', 'userspace', 'kernelspace'];
const keywords: readonly string[] = ['primary', 'localhost', 'all'];

const rules: readonly SettingRule[] = [
  {flag: 'proxy-mode', parts: whole, isValid: mode => modes.includes(mode), allowed: `one of ${modes.join(', ')}`},
  {flag: 'cluster-cidr', parts: list, isValid: isCidr, allowed: 'a CIDR such as 10.244.0.0/16 or fd00:10:244::/56'},
  {
    flag: 'nodeport-addresses',
    parts: list,
    isValid: part => keywords.includes(part) || isCidr(part),
    allowed: `a CIDR such as 192.0.2.0/24, or one of ${keywords.join(', ')}`,
  },
  {flag: 'kube-proxy-version', parts: whole, isValid: isVersion, allowed: 'a kube-proxy version such as v1.30.5 or 1.30'},
  {flag: 'zone', parts: whole, isValid: isLabelValue, allowed: 'a value of a label'},
];

function whole(value: string): readonly string[] {
  return [value];
}

function list(value: string): readonly string[] {
  return value.split(',');
}

function isCidr(text: string): boolean {
  return text.includes('/') && parseCidr(text) !== null;
}

/** `v1.30.5`, `1.30`, also with a distribution's suffix: `v1.30.5+k3s1`, `v1.29.1-gke.1589000`. */
function isVersion(text: string): boolean {
  return /^v?1\.\d{1,2}(?:\.\d{1,4})?(?:[-+][0-9A-Za-z.+-]+)?$/.test(text);
}

function isLabelValue(text: string): boolean {
  return /^[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?$/.test(text);
}
