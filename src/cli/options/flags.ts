import {Args, Flags} from '@oclif/core';
import {defaultArchiveLimit} from '../../collect/bundle/bundle-files.ts';
import {parseTimeout} from '../../collect/kube/kubeconfig.ts';
import {isDnsLabel, errorText} from '../../model/text.ts';
import {writableFile} from '../output-file.ts';
import {readTextFile} from '../../collect/text-file.ts';
import {kindOfConfig} from '../../parse/kube-proxy/kube-proxy-config.ts';
import {wrongUse} from '../../run/wrong-use.ts';

/** Of a flag that may be given more than once, each time with one value. */
export const repeatable = {multiple: true, multipleNonGreedy: true} as const;

/** Flags that help lists under this heading. */
export function inGroup<T extends Readonly<Record<string, {helpGroup?: string}>>>(helpGroup: string, flags: T): T {
  for (const flag of Object.values(flags)) flag.helpGroup = helpGroup;
  return flags;
}

/** The names of Services. */
export function serviceArgs(description = 'NAME, svc/NAME or NAMESPACE/NAME; several may be given') {
  return {service: Args.string({description, required: false, ignoreStdin: true})};
}

/** Which Services. */
export const scopeFlags = inGroup('SERVICES', {
  namespace: Flags.string({
    char: 'n',
    description: 'namespace of the Services, or several (a,b)',
    parse: async text => namespaceNames(text, {several: true}),
    helpValue: 'NAMESPACE',
  }),
  'all-namespaces': Flags.boolean({char: 'A', description: 'Services of all namespaces'}),
  selector: Flags.string({
    char: 'l',
    description: 'Services with these labels (key=value, key!=value, key, !key; comma-separated)',
    helpValue: 'SELECTOR',
  }),
});

/** The value of a flag, where it can be the name of a namespace; an empty one stands for the default. Throws a CLIError (exit 2). */
export function namespaceNames(text: string, {several = false} = {}): string {
  const wrong = text === '' ? undefined : (several ? text.split(',') : [text]).find(name => !isDnsLabel(name));
  if (wrong === undefined) return text;
  const all = several && wrong === '*' ? ' (all namespaces: -A)' : '';
  const form = 'up to 63 lower case letters, digits and -';
  throw wrongUse(`"${wrong}" is not the name of a namespace: ${form}${all}`);
}

/** How much of an archive is read. */
export const archiveFlag = inGroup('NODES', {
  'max-archive-size': Flags.custom<number>({
    description: 'largest archive that is read, unpacked',
    default: defaultArchiveLimit,
    defaultHelp: async () => '2Gi',
    helpValue: 'SIZE',
    parse: async text => {
      const [, number, unit] = /^([1-9]\d{0,5})(Mi|Gi)$/.exec(text) ?? [];
      if (number === undefined) throw wrongUse(`${text} is not a size such as 512Mi or 8Gi`);
      return Number(number) * (unit === 'Gi' ? 1024 ** 3 : 1024 ** 2);
    },
  })(),
});

/** Which nodes, and where their dumps come from. */
export const sourceFlags = inGroup('NODES', {
  from: Flags.string({
    description: 'read a bundle (directory, .tgz, a bare dump of iptables-save or nft, or - for standard input)',
    helpValue: 'BUNDLE',
  }),
  ...archiveFlag,
  node: Flags.string({
    description: 'check this node only (repeatable, or comma-separated)',
    helpValue: 'NODE',
    ...repeatable,
    delimiter: ',',
  }),
  'node-selector': Flags.string({description: 'check nodes with these labels only', helpValue: 'SELECTOR'}),
  sample: Flags.integer({description: 'check this many of these nodes, always the same ones', min: 1, helpValue: 'N'}),
});

/** Which rules of the nodes. */
export const fullFlag = inGroup('NODES', {
  full: Flags.boolean({
    description: 'read all rules of each node, not only those that packets to the named Services can reach',
    default: false,
  }),
});

/** Throws a CLIError (exit 2) for a name that can be none, and where `--full` has no effect: before a cluster is looked for. */
export function refuseUnusable({full, from}: {readonly full: boolean; readonly from?: string | undefined}, names: readonly string[]): void {
  if (names.includes('-')) throw wrongUse('"-" is not a Service name: --from - reads standard input');
  if (!full) return;
  const why =
    from !== undefined
      ? 'a bundle holds what was captured'
      : names.length === 0
        ? 'without the name of a Service all rules are read'
        : null;
  if (why !== null) throw wrongUse(`--full has no effect: ${why}`);
}

/** Settings of kube-proxy that were not detected, or that override detected ones. */
export const settingFlags = inGroup('KUBE-PROXY', {
  'proxy-mode': Flags.string({description: 'the mode kube-proxy runs in', helpValue: 'MODE'}),
  'cluster-cidr': Flags.string({description: 'clusterCIDR of kube-proxy, comma-separated for two families', helpValue: 'CIDR'}),
  'detect-local-mode': Flags.string({
    description: 'detectLocalMode of kube-proxy',
    options: ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'],
  }),
  'masquerade-all': Flags.boolean({description: 'masqueradeAll of kube-proxy', allowNo: true}),
  'masquerade-bit': Flags.integer({description: 'masqueradeBit of kube-proxy', helpValue: 'BIT', min: 0, max: 31}),
  'nodeport-addresses': Flags.string({description: 'nodePortAddresses of kube-proxy, comma-separated', helpValue: 'CIDRS'}),
  'kube-proxy-version': Flags.string({description: 'the version of kube-proxy, such as v1.30.5', helpValue: 'VERSION'}),
  zone: Flags.string({description: "the node's zone", helpValue: 'ZONE'}),
});

/** `-q` does another thing in each command, which its help says. */
export function quietFlag(description: string) {
  return Flags.boolean({char: 'q', description, helpGroup: 'OUTPUT'});
}

/** The same of `-v`. */
export function verboseFlag(description: string) {
  return Flags.boolean({char: 'v', description, helpGroup: 'OUTPUT'});
}

/** `-o`: the name of one of these renderers. */
export function outputFlag(renderers: object, usual: string) {
  return Flags.string({char: 'o', description: 'output format', options: Object.keys(renderers), default: usual, helpGroup: 'OUTPUT'});
}

export const outputFlags = inGroup('OUTPUT', {
  'output-file': Flags.string({description: 'write the report to this file', helpValue: 'FILE', helpGroup: 'OUTPUT', parse: writableFile}),
  color: Flags.string({description: 'color the output', options: ['auto', 'always', 'never'], default: 'auto'}),
  quiet: quietFlag('print the verdict and the findings only'),
  verbose: verboseFlag('also infos, the settings with their sources, how each node was read, and what was not read'),
  'no-progress': Flags.boolean({description: 'no progress on standard error'}),
});

export const evaluationFlags = inGroup('FINDINGS', {
  'fail-on': Flags.string({
    description: 'lowest severity that makes the exit code 1',
    options: ['error', 'warning', 'info', 'never'],
    default: 'error',
  }),
  only: Flags.string({
    description: 'report only these findings (comma-separated, repeatable)',
    ...repeatable,
    delimiter: ',',
    helpValue: 'CODES',
  }),
  skip: Flags.string({
    description: 'do not report these findings; of one Service only: ST101=shop/empty',
    ...repeatable,
    delimiter: ',',
    helpValue: 'CODES',
  }),
  baseline: Flags.string({description: 'findings in this JSON report are suppressed', helpValue: 'FILE'}),
});

/** The value of `--interval` in milliseconds. Throws a CLIError (exit 2). */
export function intervalOf(text: string, {least, usual}: {readonly least: string; readonly usual: string}): number {
  const interval = parseTimeout(text);
  if (interval === null || interval < (parseTimeout(least) ?? 0))
    throw wrongUse(`--interval ${text}: write a duration of at least ${least}, like ${usual} or 1m`);
  return interval;
}

/** Objects that are not applied yet. */
export const manifestFlags = inGroup('MANIFESTS', {
  filename: Flags.string({
    char: 'f',
    description: 'read Services, EndpointSlices and Nodes from a manifest, - for standard input (repeatable)',
    ...repeatable,
    helpValue: 'FILE',
  }),
  endpoint: Flags.string({
    description: 'an endpoint of the Services of -f that have no EndpointSlice (repeatable)',
    ...repeatable,
    helpValue: 'IP[:PORT][@NODE]',
  }),
});

/** `--config FILE`. */
export function configFlag(description: string) {
  return Flags.string({description, helpValue: 'FILE', helpGroup: 'KUBE-PROXY'});
}

/** The text of a KubeProxyConfiguration. Throws a CLIError (exit 2). */
export function readConfigFile(file: string): string {
  const {text, kind} = readConfig(file);
  if (kind === configKind) return text;
  const found = kind === null ? 'it names no kind' : `its kind is ${kind}`;
  throw wrongUse(`--config ${file} is not a ${configKind}: ${found}`);
}

/** kube-proxy itself starts with nothing else. */
const configKind = 'KubeProxyConfiguration';

function readConfig(file: string): {readonly text: string; readonly kind: string | null} {
  try {
    const text = readTextFile(file);
    return {text, kind: kindOfConfig(text)};
  } catch (error) {
    throw wrongUse(`cannot read ${file}: ${errorText(error).split('\n', 1)[0]}`);
  }
}
