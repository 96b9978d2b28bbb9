import {Flags} from '@oclif/core';
import {connectionFlags, transportFlags} from '../options/cluster-flags.ts';
import {exitCode, type FailOn} from '../../run/options/wait-limit.ts';
import * as common from '../options/flags.ts';
import {withClosingLine} from '../closing-line.ts';
import {traceRenderers} from '../../render/trace-index.ts';
import {isRulesAlone} from '../../model/snapshot.ts';
import {reportRulesAlone} from '../../diagnosis/report-rules-alone.ts';
import type {Report} from '../../model/report.ts';
import {serviceList} from '../../render/table/tree.ts';
import type {ScopeFlags} from '../../run/scope/choose-nodes.ts';
import {withStoppedPaths} from '../../run/packet/stopped-paths.ts';
import {selectInRules} from '../../run/scope/select-in-rules.ts';
import {selectionOf} from '../../run/scope/select-services.ts';
import {type ArchiveFlag, BaseCommand} from './base-command.ts';
import {wrongUse} from '../../run/wrong-use.ts';

export default class TraceCommand extends BaseCommand {
  static override summary = 'Trace the packet path to a Service on each node';
  static override description =
    'Walks the actual rules of each node. Shows every port on every node: each entry (cluster IP, node port, load-balancer IP, external IP), the chains, and each endpoint with its pod, node, readiness and share of the traffic. Missing, stale and wrong steps are marked.\nThe word "trace" is optional.';
  static override examples = [
    '<%= config.bin %> web -n shop',
    '<%= config.bin %> trace shop/web --node node-a -o svg --output-file web.svg',
    '<%= config.bin %> trace shop/web --from bundle.tgz',
    '<%= config.bin %> trace default/nginx --from pasted-rules.txt',
  ];
  static override strict = false;
  static override args = common.serviceArgs(
    'NAME, svc/NAME or NAMESPACE/NAME; several may be given. Rules alone are listed without a name',
  );
  static override flags = {
    ...common.scopeFlags,
    ...common.sourceFlags,
    ...common.fullFlag,
    ...connectionFlags,
    ...transportFlags,
    ...common.settingFlags,
    ...common.outputFlags,
    quiet: common.quietFlag('print the verdict and the findings only, without the paths'),
    verbose: common.verboseFlag('also every endpoint, counters of rules, infos, each finding by itself, and what was not read'),
    ...common.evaluationFlags,
    counters: Flags.boolean({
      description: 'read the counters of rules and show them, with all that -v shows',
      default: false,
      helpGroup: 'OUTPUT',
    }),
    output: common.outputFlag(traceRenderers, 'tree'),
  };

  async run(): Promise<void> {
    const {flags, argv} = await this.parse(TraceCommand);
    const known = this.baseline(flags.baseline);
    const evaluation = {toolVersion: this.config.version, known, trace: true};
    const names = argv as string[];
    common.refuseUnusable(flags, names);
    const alone = flags.from === undefined ? null : await this.rulesAlone(flags.from, flags, names);
    if (alone === null && names.length === 0 && flags.selector === undefined)
      throw wrongUse('name a Service (svc-trace trace NAME) or a selector (-l app=web)');
    const report = alone ?? (await this.report(flags, names, evaluation));
    const isList = alone !== null && names.length === 0 && flags.output === 'tree';
    const render = isList ? serviceList : traceRenderers[flags.output as keyof typeof traceRenderers];
    const options = this.renderOptions({...flags, verbose: flags.verbose || flags.counters});
    const text = render(report, options);
    const isTree = flags.output === 'tree' && flags['output-file'] === undefined;
    this.print(isTree ? withClosingLine(text, report, options) : text, flags['output-file']);
    process.exitCode ??= exitCode(report, flags['fail-on'] as FailOn);
  }

  /** What rules without API objects show; null if `--from` names more than rules. */
  private async rulesAlone(from: string, flags: ScopeFlags & ArchiveFlag, names: readonly string[]): Promise<Report | null> {
    const snapshot = await this.snapshot(from, flags);
    if (!isRulesAlone(snapshot)) return null;
    const report = reportRulesAlone(snapshot, {toolVersion: this.config.version}, traces =>
      selectInRules(traces, selectionOf(names, flags)),
    );
    return names.length === 0 ? report : withStoppedPaths(report, snapshot);
  }
}
