import {Errors} from '@oclif/core';
import {checks} from '../../checks/index.ts';
import type {DiagnoseOptions} from '../../diagnosis/diagnosis-options.ts';
import {parseVersion} from '../../expect/kube-proxy-version.ts';
import type {ConfigOverrides} from '../../expect/proxy-config.ts';
import {closest} from '../scope/closest.ts';

/** What oclif makes of the flags that say how to judge. */
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

/** The options of `diagnose` that do not depend on what there is. Throws a CLIError (exit 2) for a code or a version that is none. */
export function evaluationOptions(flags: ParsedEvaluationFlags): Pick<DiagnoseOptions, 'overrides' | 'only' | 'skip'> {
  return {
    overrides: overridesOf(flags),
    ...(flags.only === undefined ? {} : {only: codes(flags.only)}),
    ...(flags.skip === undefined ? {} : {skip: codes(flags.skip)}),
  };
}

function codes(given: readonly string[]): ReadonlySet<string> {
  const known = checks.map(({code}) => code as string);
  const wanted = given.map(code => code.trim().toUpperCase());
  const unknown = wanted.find(code => !known.includes(code));
  if (unknown !== undefined)
    throw new Errors.CLIError(`there is no finding code ${unknown}; "explain" lists them`, {
      exit: 2,
      suggestions: [...closest(unknown, known)],
    });
  return new Set(wanted);
}

function overridesOf(flags: ParsedEvaluationFlags): ConfigOverrides {
  const version = flags['kube-proxy-version'];
  if (version !== undefined && parseVersion(version) === null)
    throw new Errors.CLIError(`"${version}" is no version of kube-proxy; write it like v1.30.5`, {exit: 2});
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
