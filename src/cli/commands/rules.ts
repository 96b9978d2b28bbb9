import {Flags} from '@oclif/core';
import {ClusterView} from '../../expect/cluster/cluster-view.ts';
import {proxyTableId} from '../../expect/nftables/expected-table.ts';
import {droppedRanges} from '../../expect/nftables/base-chains.ts';
import type {ExpectedRules} from '../../model/expected-rules.ts';
import {families, type Family} from '../../model/address.ts';
import {standInFor} from '../../model/proxy-config.ts';
import type {Snapshot} from '../../model/snapshot.ts';
import {type NodeSetup, nodeSetup, plannedConfig} from '../../preview/sides.ts';
import {serviceNotes} from '../../preview/manifests/add-manifests.ts';
import {expectedRules, writableModes} from '../../preview/rules/write-expected-rules.ts';
import {escapeText} from '../../render/renderer.ts';
import {formatOfMode, formatsOfMode, type RulesFormat, rulesRenderers} from '../../render/rules/rules-report.ts';
import {unlessAborted} from '../../collect/unless-aborted.ts';
import {evaluationOptions} from '../../run/options/evaluation-options.ts';
import {chooseRulesNode, requireServices} from '../../run/rules/choose-rules-node.ts';
import {withPlannedObjects} from '../../run/rules/planned-objects.ts';
import {selectionOf, selectServices} from '../../run/scope/select-services.ts';
import * as common from '../options/flags.ts';
import {connectionFlags} from '../options/cluster-flags.ts';
import {type ArchiveFlag, BaseCommand} from './base-command.ts';
import {wrongUse} from '../../run/wrong-use.ts';

export default class RulesCommand extends BaseCommand {
  static override summary = 'Print the rules that kube-proxy should write';
  static override description =
    `Computes the rules from the API objects; nothing on a node is read. With -A or --full the text is what iptables-restore --noflush, nft -f or ipvsadm-restore loads.
With -f alone only the manifests are read; --from or --context adds them to a bundle or a cluster.
Exit codes: 0 printed, 2 wrong use, 3 the API could not be read.`;
  static override examples = [
    '<%= config.bin %> rules -A --for-node node-a --from bundle.tgz',
    '<%= config.bin %> rules shop/web --for-node node-a --proxy-mode nftables --kube-proxy-version v1.37.0',
    '<%= config.bin %> rules -f service.yaml --endpoint 10.244.1.5:8080@node-a --for-node node-a',
  ];
  static override strict = false;
  static override args = common.serviceArgs();
  static override flags = {
    ...common.scopeFlags,
    from: common.sourceFlags.from,
    ...common.archiveFlag,
    'for-node': Flags.string({description: 'write the rules of this node', aliases: ['node'], helpValue: 'NODE', helpGroup: 'NODES'}),
    ...common.manifestFlags,
    full: Flags.boolean({description: 'base rules too, so that the text can be loaded; always with -A and -o json', helpGroup: 'OUTPUT'}),
    family: Flags.string({description: 'print one family only', options: ['IPv4', 'IPv6'], helpGroup: 'OUTPUT'}),
    ...connectionFlags,
    ...common.settingFlags,
    config: common.configFlag('a KubeProxyConfiguration in place of the settings that are found'),
    'output-file': common.outputFlags['output-file'],
    quiet: common.quietFlag('no progress on standard error'),
    'no-progress': common.outputFlags['no-progress'],
    output: Flags.string({
      char: 'o',
      description: 'output format; by default that of the proxy mode',
      options: Object.keys(rulesRenderers),
      helpGroup: 'OUTPUT',
    }),
  };

  async run(): Promise<void> {
    const {flags, argv} = await this.parse(RulesCommand);
    const read = await this.#snapshot(flags);
    requireServices(read);
    const {snapshot, services, notes} = withPlannedObjects(read, flags);
    requireAnyService(snapshot, flags);
    const input = selectionOf(argv as string[], flags);
    const {selects, byName} = selectServices(input, snapshot.api);
    const asked = byName ? (snapshot.api.services ?? []).filter(selects) : services.filter(selects);
    const node = chooseRulesNode(snapshot, flags['for-node'], isOfManifestsAlone(flags));
    const {overrides = {}} = evaluationOptions(flags);
    const found = nodeSetup({node, api: snapshot.api, view: new ClusterView(snapshot.api), overrides});
    const setup =
      flags.config === undefined
        ? found
        : {...found, config: plannedConfig(found, {overrides, configFile: common.readConfigFile(flags.config)})};
    const mode = setup.config.mode.value;
    if (!writableModes.includes(mode))
      throw wrongUse(`there are no rules for proxy mode "${mode}": it must be one of ${writableModes.join(', ')}`);
    const wanted = flags.family === undefined ? families : families.filter(family => family === flags.family);
    const isWhole = flags.full || input.allNamespaces || flags.output === 'json' || mode === 'ipvs';
    const rules = expectedRules({
      setup,
      families: wanted,
      isWanted: ({object}) => selects(object),
      isWhole,
      notes: [
        ...(isWhole ? [] : [ofServicesAlone]),
        ...notes,
        ...serviceNotes(snapshot.api, asked, setup.config.version.value),
        ...settingNotes(setup),
      ],
    });
    const format = formatOf(rules, flags.output as RulesFormat | undefined);
    this.print(rulesRenderers[format](rules), flags['output-file']);
    // ipvsadm-restore takes no comments.
    if (format === 'ipvsadm-save' && !flags.quiet) process.stderr.write(rules.notes.map(note => `${escapeText(note)}\n`).join(''));
  }

  async #snapshot(
    flags: Parameters<BaseCommand['withCluster']>[0] &
      ArchiveFlag & {
        readonly from?: string | undefined;
        readonly 'for-node'?: string | undefined;
        readonly filename?: readonly string[] | undefined;
      },
  ): Promise<Snapshot> {
    if (flags.from !== undefined) return this.snapshot(flags.from, flags);
    if (isOfManifestsAlone(flags)) return emptySnapshot;
    const {readApi} = await import('../../run/rules/read-api.ts');
    return this.withCluster(flags, ({cluster, signal}) => unlessAborted(readApi(cluster, flags['for-node']), signal));
  }
}

const ofServicesAlone = 'only the rules of the named Services; --full adds the base rules, so that the text can be loaded';

/** Base rules alone answer no question about a manifest. */
function requireAnyService({api}: Snapshot, flags: Parameters<typeof isOfManifestsAlone>[0]): void {
  if (!isOfManifestsAlone(flags) || (api.services ?? []).length > 0) return;
  const [files, kinds] = [
    (flags.filename ?? []).join(', '),
    [...((api.endpointSlices ?? []).length > 0 ? ['EndpointSlice'] : []), ...((api.nodes ?? []).length > 0 ? ['Node'] : [])],
  ];
  throw wrongUse(`no Service in ${files}: only ${kinds.join(', ')}. Add it with -f, or read a bundle or cluster too (--from, --context)`);
}

/** Flags that name a cluster. */
const ofCluster = ['context', 'kubeconfig', 'cluster', 'server'] as const;

function isOfManifestsAlone({
  from,
  filename = [],
  ...flags
}: {
  readonly from?: string | undefined;
  readonly filename?: readonly string[] | undefined;
} & {readonly [Name in (typeof ofCluster)[number]]?: string | undefined}): boolean {
  return filename.length > 0 && from === undefined && ofCluster.every(name => flags[name] === undefined);
}

const emptySnapshot: Snapshot = {
  origin: 'manifests',
  nodes: [],
  problems: [],
  api: {services: [], endpointSlices: [], endpoints: null, nodes: null, pods: null, configMaps: null},
};

/** What the rules depend on and was not found. */
function settingNotes(setup: NodeSetup): readonly string[] {
  const {config, facts} = setup;
  const {version, clusterCIDRs, detectLocalMode} = config;
  const standIn = standInFor(version.value);
  return [
    ...(version.value.guessed
      ? [`the version of kube-proxy is not known: these are the rules of 1.${version.value.minor} (--kube-proxy-version)`]
      : []),
    ...(standIn === null ? [] : [standIn]),
    ...(detectLocalMode.value === 'ClusterCIDR' && clusterCIDRs.value.length === 0 && clusterCIDRs.source === 'kube-proxy default'
      ? ['no clusterCIDR is known: no rule distinguishes pods from other clients (--cluster-cidr)']
      : []),
    ...(config.mode.value === 'nftables' && families.some(family => rangesOf(setup, family) === undefined)
      ? ['the Service range is not known: the rule that drops packets to its unallocated addresses is left out']
      : []),
    ...(facts.hostIPs.length === 0 ? [`the addresses of ${facts.name} are not known: add its Node with -f`] : []),
  ];
}

function rangesOf({api, config, nft}: NodeSetup, family: Family): readonly string[] | undefined {
  return droppedRanges({api, config, family, table: nft()?.tables.get(proxyTableId(family)) ?? null});
}

function formatOf({proxyMode}: ExpectedRules, format: RulesFormat = formatOfMode[proxyMode] ?? 'json'): RulesFormat {
  const possible = formatsOfMode[proxyMode] ?? [];
  if (possible.includes(format)) return format;
  throw wrongUse(`-o ${format} has nothing of ${proxyMode} mode: it must be one of ${possible.join(', ')}`);
}
