import {Errors} from '@oclif/core';
import {checks} from '../../checks/index.ts';
import type {DiagnoseOptions} from '../../diagnosis/diagnosis-options.ts';
import {refuseInvalidSettings} from './setting-values.ts';
import type {ConfigOverrides} from '../../expect/proxy-config.ts';
import {escapeText} from '../../render/escape.ts';
import {closest} from '../scope/closest.ts';

/** The parsed values of the flags that control evaluation. */
export interface ParsedEvaluationFlags {
  readonly only?: readonly string[] | undefined;
  readonly skip?: readonly string[] | undefined;
  readonly 'proxy-mode'?: string | undefined;
  readonly 'cluster-cidr'?: string | undefined;
  readonly 'detect-local-mode'?: string | undefined;
  readonly 'masquerade-all'?: boolean | undefined;
  readonly 'masquerade-bit'?: number | undefined;
  readonly 'nodeport-addresses'?: string | undefined;
  readonly 'kube-proxy-version'?: string | undefined;
  readonly zone?: string | undefined;
}

/** The options of `diagnose` that do not depend on the cluster. Throws a CLIError (exit 2) for an unknown code or an invalid version. */
export function evaluationOptions(flags: ParsedEvaluationFlags): Pick<DiagnoseOptions, 'overrides' | 'only' | 'skip'> {
  return {
    overrides: overridesOf(flags),
    ...(flags.only === undefined ? {} : {only: codes(flags.only)}),
    ...(flags.skip === undefined ? {} : {skip: codes(flags.skip)}),
  };
}

function codes(given: readonly string[]): ReadonlySet<string> {
  return new Set(given.map(findingCode));
}

/** The code of a finding by its code or name, in any case. Throws a CLIError (exit 2). */
export function findingCode(text: string): string {
  const wanted = text.trim().toLowerCase();
  const found = checks.find(({code, name}) => code.toLowerCase() === wanted || name === wanted);
  if (found !== undefined) return found.code;
  const known = checks.flatMap(({code, name}) => [code as string, name]);
  const near = /^st\d/.test(wanted) ? closest(wanted.toUpperCase(), known) : closest(wanted, known);
  throw new Errors.CLIError(escapeText(`unknown finding "${text.trim()}"; "svc-trace explain" lists all`), {
    exit: 2,
    suggestions: [...near],
  });
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
