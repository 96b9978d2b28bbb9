import {Errors} from '@oclif/core';
import {checks} from '../checks/index.ts';
import type {DiagnoseOptions} from '../diagnose.ts';
import type {ConfigOverrides} from '../expect/proxy-config.ts';
import {parseVersion} from '../expect/kube-proxy-version.ts';
import type {Snapshot} from '../model/snapshot.ts';
import {escapeText} from '../render/escape.ts';
import {closest} from './closest.ts';
import {matchesSelector, parseSelector} from './label-selector.ts';
import {selectServices} from './select-services.ts';

export interface CommonFlags {
  readonly namespace?: string | undefined;
  readonly 'all-namespaces'?: boolean;
  readonly selector?: string | undefined;
  readonly node?: readonly string[] | undefined;
  readonly 'node-selector'?: string | undefined;
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

/** From the command line to the options of `diagnose`. Throws a CLIError (exit 2) for what does not exist. */
export function diagnoseOptions(flags: CommonFlags, names: readonly string[], snapshot: Snapshot): Omit<DiagnoseOptions, 'toolVersion'> {
  const selection = selectServices(
    {names, namespace: flags.namespace, allNamespaces: flags['all-namespaces'] ?? false, selector: flags.selector},
    snapshot,
  );
  return {
    ...selection,
    nodes: selectNodes(flags, snapshot),
    overrides: overridesOf(flags),
    ...(flags.only === undefined ? {} : {only: codes(flags.only)}),
    ...(flags.skip === undefined ? {} : {skip: codes(flags.skip)}),
  };
}

export function selectNodes(flags: CommonFlags, {nodes, api}: Snapshot): (name: string) => boolean {
  const known = [...nodes.map(({name}) => name), ...(api.nodes ?? []).map(({metadata}) => metadata.name)];
  const wanted = flags.node ?? [];
  const unknown = wanted.find(name => !known.includes(name));
  if (unknown !== undefined)
    throw new Errors.CLIError(`there is no node ${unknown}`, {exit: 2, suggestions: closest(unknown, known).map(escapeText)});
  const requirements = flags['node-selector'] === undefined ? [] : parseSelector(flags['node-selector']);
  const labels = new Map((api.nodes ?? []).map(({metadata}) => [metadata.name, metadata.labels ?? {}]));
  return name =>
    (wanted.length === 0 || wanted.includes(name)) && (requirements.length === 0 || matchesSelector(labels.get(name) ?? {}, requirements));
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

function overridesOf(flags: CommonFlags): ConfigOverrides {
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
