import {Flags} from '@oclif/core';
import {agentsFlags, refuseBesideAgents, connectionFlags, transportFlags} from '../options/cluster-flags.ts';
import {exitCode, type FailOn, waitLimit} from '../../run/options/wait-limit.ts';
import * as common from '../options/flags.ts';
import {writableFile} from '../output-file.ts';
import {pieceRenderers, renderers} from '../../render/renderers.ts';
import {type PieceRenderer, styleOf} from '../../render/renderer.ts';
import {withClosingLine} from '../closing-line.ts';
import type {Report} from '../../model/report.ts';
import {planCheckRenderers, planExitCode} from '../../render/preview/plan-check.ts';
import type {PreviewPlan} from '../../model/preview-result.ts';
import {verdictLine} from '../../render/verdict-line.ts';
import type {Snapshot} from '../../model/snapshot.ts';
import {namespacedName} from '../../model/text.ts';
import type {PreviewRunInput} from '../../preview/preview-run.ts';
import type {ScopeFlags} from '../../run/scope/choose-nodes.ts';
import {selectServices} from '../../run/scope/select-services.ts';
import {BaseCommand} from './base-command.ts';
import {wrongUse} from '../../run/wrong-use.ts';

export default class CheckCommand extends BaseCommand {
  static override summary = 'Check every Service on every node';
  static override description =
    `Compares each node's rules with the rules kube-proxy should have written for the cluster's Services and EndpointSlices.
Exit codes: 0 no finding reaches --fail-on, 1 a finding does, 2 wrong use, 3 a node or the API was not checked and nothing else fails.`;
  static override examples = [
    '<%= config.bin %> check -A',
    '<%= config.bin %> check shop/web --wait 2m',
    '<%= config.bin %> check -n shop -l tier=web --fail-on warning',
    '<%= config.bin %> check -A --from bundle.tgz -o json',
  ];
  static override strict = false;
  static override args = common.serviceArgs('NAME, svc/NAME, NAMESPACE/NAME, NAME.NAMESPACE.svc or an address; several may be given');
  static override flags = {
    ...common.scopeFlags,
    ...common.sourceFlags,
    ...common.fullFlag,
    ...connectionFlags,
    ...transportFlags,
    ...agentsFlags,
    ...common.settingFlags,
    ...common.outputFlags,
    ...common.evaluationFlags,
    wait: Flags.string({
      description: 'check again until nothing fails and every node was checked, for at most this long (60s, 2m)',
      helpValue: 'DURATION',
      helpGroup: 'FINDINGS',
    }),
    plan: Flags.string({
      description: 'compare with a plan of "preview -o json" instead: which changes came, which did not, and what changed besides',
      helpValue: 'FILE',
      helpGroup: 'FINDINGS',
    }),
    'summary-file': Flags.string({
      description: 'also append a Markdown report to this file, such as $GITHUB_STEP_SUMMARY',
      parse: writableFile,
      helpValue: 'FILE',
      helpGroup: 'OUTPUT',
    }),
    output: common.outputFlag(renderers, 'table'),
  };

  async run(): Promise<void> {
    const {flags, argv} = await this.parse(CheckCommand);
    refuseBesideAgents(flags);
    common.refuseUnusable(flags, argv as string[]);
    if (flags.plan !== undefined) return this.#checkPlan({...flags, plan: flags.plan}, argv as string[]);
    const known = this.baseline(flags.baseline);
    const options = {toolVersion: this.config.version, known, ...(flags.output === 'html' ? {trace: 'faulty' as const} : {})};
    const report = await this.report(flags, argv as string[], options, waitLimit(flags));
    await this.#show(report, flags);
    process.exitCode ??= exitCode(report, flags['fail-on'] as FailOn);
  }

  async #checkPlan(flags: PlanFlags, names: readonly string[]): Promise<void> {
    const formats = Object.keys(planCheckRenderers);
    if (!formats.includes(flags.output)) throw wrongUse(`with --plan, -o must be one of ${formats.join(', ')}`);
    if (flags.wait !== undefined || flags.baseline !== undefined) throw wrongUse('--plan goes with neither --wait nor --baseline');
    const {PlanCheckRun} = await import('../../preview/check-plan.ts');
    const plan = this.previewPlan(flags.plan);
    const found = await this.nodeByNode(
      flags,
      snapshot => planScope({...flags, scope: plan.scope}, names, snapshot),
      input => new PlanCheckRun(input, plan),
    );
    const render = planCheckRenderers[flags.output as keyof typeof planCheckRenderers];
    this.print(render(found, this.renderOptions(flags)), flags['output-file']);
    process.exitCode ??= planExitCode(found, flags['fail-on']);
  }

  async #show(report: Report, flags: ShowFlags): Promise<void> {
    const options = this.renderOptions(flags);
    const format = flags.output as keyof typeof renderers;
    const pieces = (pieceRenderers as Partial<Record<string, PieceRenderer>>)[format];
    if (flags['summary-file'] !== undefined) this.append(renderers.markdown(report, {...options, color: false}), flags['summary-file']);
    const verdict = verdictLine(report, styleOf(false));
    const close = ['table', 'wide'].includes(format) && flags['output-file'] === undefined ? withClosingLine : (text: string) => text;
    if (pieces === undefined) this.print(close(renderers[format](report, options), report, options), flags['output-file'], verdict);
    else await this.printPieces(pieces(report, options), flags['output-file'], verdict);
  }
}

type ShowFlags = Parameters<BaseCommand['renderOptions']>[0] & {readonly output: string; readonly 'summary-file'?: string | undefined};

type PlanFlags = Parameters<BaseCommand['nodeByNode']>[0] &
  Parameters<BaseCommand['renderOptions']>[0] &
  ScopeFlags & {
    readonly plan: string;
    readonly wait?: string | undefined;
    readonly baseline?: string | undefined;
    readonly 'fail-on': string;
  };

/** All Services of the plan, unless a scope is given. */
function planScope(flags: PlanFlags & Pick<PreviewPlan, 'scope'>, names: readonly string[], {api}: Snapshot): PreviewRunInput {
  const {namespace, selector} = flags;
  const isScoped = names.length > 0 || namespace !== undefined || selector !== undefined;
  const {selects} = selectServices({names, namespace, selector, allNamespaces: flags['all-namespaces'] ?? !isScoped}, api);
  const services = (api.services ?? []).filter(selects);
  const planned = new Set(flags.scope);
  if (!services.some(({metadata}) => planned.has(namespacedName(metadata))))
    throw wrongUse(`the plan ${flags.plan} has no Service in scope`);
  return {
    api,
    apiAfter: api,
    plan: {overrides: {}, configFile: null},
    notes: [],
    expectedOnly: false,
    services: services.length,
    scope: services.map(({metadata}) => namespacedName(metadata)),
    selects: ({object}) => selects(object),
  };
}
