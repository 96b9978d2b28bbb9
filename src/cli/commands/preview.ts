import {Flags} from '@oclif/core';
import {newestKnownMinor} from '../../model/proxy-config.ts';
import type {Snapshot} from '../../model/snapshot.ts';
import {namespacedName} from '../../model/text.ts';
import {PreviewRun, type PreviewRunInput} from '../../preview/preview-run.ts';
import {serviceNotes} from '../../preview/manifests/add-manifests.ts';
import {writableModes} from '../../preview/rules/write-expected-rules.ts';
import {previewExitCode, previewRenderers} from '../../render/preview/preview-report.ts';
import {evaluationOptions} from '../../run/options/evaluation-options.ts';
import {withPlannedObjects} from '../../run/rules/planned-objects.ts';
import {selectionOf, selectServices} from '../../run/scope/select-services.ts';
import * as common from '../options/flags.ts';
import {connectionFlags, transportFlags} from '../options/cluster-flags.ts';
import {BaseCommand} from './base-command.ts';
import {wrongUse} from '../../run/wrong-use.ts';

export default class PreviewCommand extends BaseCommand {
  static override summary = 'Show what a change of kube-proxy does to packets';
  static override description =
    `Compares, before a change is made, the rules on each node with those that kube-proxy would write after it: another proxy mode, another version, other settings, or objects that are not applied yet.
Exit codes: 0 nothing is lost or gained, 1 something served today is lost or the other way round, 2 wrong use, 3 a node was not checked and nothing is lost.`;
  static override examples = [
    '<%= config.bin %> preview -A --proxy-mode nftables',
    '<%= config.bin %> preview -A --kube-proxy-version v1.37.0 --from bundle.tgz',
    '<%= config.bin %> preview -A -f service.yaml --from bundle.tgz',
  ];
  static override strict = false;
  static override args = common.serviceArgs();
  static override flags = {
    ...common.settingFlags,
    config: common.configFlag('a KubeProxyConfiguration in place of the settings of today'),
    ...common.manifestFlags,
    ...common.scopeFlags,
    ...common.sourceFlags,
    'expected-only': Flags.boolean({description: 'compute both sides; read no node', helpGroup: 'NODES'}),
    ...connectionFlags,
    ...transportFlags,
    ...common.outputFlags,
    quiet: common.quietFlag('print the verdict only'),
    verbose: common.verboseFlag('also requirements that are met, every Service and node by name, and in JSON the rules of each outcome'),
    'fail-on': Flags.string({
      description: 'exit with 1 when something is lost or gained, for any change, or never',
      options: ['lost', 'any', 'never'],
      default: 'lost',
      helpGroup: 'JUDGING',
    }),
    output: common.outputFlag(previewRenderers, 'table'),
  };

  async run(): Promise<void> {
    const {flags, argv} = await this.parse(PreviewCommand);
    const plan = planOf(flags);
    const input = (snapshot: Snapshot): PreviewRunInput => {
      const {snapshot: after, services: planned, notes} = withPlannedObjects(snapshot, flags);
      const {selects} = selectServices(selectionOf(argv as string[], flags), after.api);
      const services = (after.api.services ?? []).filter(selects).length;
      const scope = [...(snapshot.api.services ?? []), ...(after.api.services ?? [])]
        .filter(selects)
        .map(({metadata}) => namespacedName(metadata));
      return {
        api: snapshot.api,
        apiAfter: after.api,
        plan,
        notes: [...notes, ...serviceNotes(after.api, planned.filter(selects), newestVersion)],
        services,
        scope: [...new Set(scope)].sort(),
        selects: ({object}) => selects(object),
        expectedOnly: flags['expected-only'] ?? false,
        paths: (flags.verbose ?? false) && ['json', 'yaml'].includes(flags.output),
      };
    };
    const report = await this.nodeByNode(flags, input, planned => new PreviewRun(planned));
    const render = previewRenderers[flags.output as keyof typeof previewRenderers];
    this.print(render(report, this.renderOptions({...flags, 'fail-on': undefined})), flags['output-file']);
    process.exitCode ??= previewExitCode(report, flags['fail-on']);
  }
}

function planOf(
  flags: Parameters<typeof evaluationOptions>[0] & {
    readonly config?: string | undefined;
    readonly filename?: readonly string[] | undefined;
  },
): PreviewRunInput['plan'] {
  const {overrides = {}} = evaluationOptions(flags);
  const {mode} = overrides;
  if (mode !== undefined && !writableModes.includes(mode))
    throw wrongUse(`--proxy-mode ${mode}: must be one of ${writableModes.join(', ')}`);
  const configFile = flags.config === undefined ? null : common.readConfigFile(flags.config);
  if (Object.keys(overrides).length === 0 && configFile === null && flags.filename === undefined)
    throw wrongUse('say what changes: --proxy-mode, --kube-proxy-version, --config FILE, another setting, or -f FILE');
  return {overrides, configFile};
}

/** The nodes may differ; what a Service needs to have rules is the same for all but a label. */
const newestVersion = {text: `v1.${newestKnownMinor}`, minor: newestKnownMinor, patch: null};
