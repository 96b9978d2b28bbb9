import {Args, Flags} from '@oclif/core';
import {agentsFlags, refuseBesideAgents} from '../options/agents-flags.ts';
import {connectionFlags} from '../options/connection-flags.ts';
import {exitCode, type FailOn} from '../../run/exit-code.ts';
import {evaluationFlags, fullFlag, outputFlags, refuseFull, scopeFlags, settingFlags, sourceFlags} from '../options/flags.ts';
import {transportFlags} from '../options/transport-flags.ts';
import {waitLimit} from '../../run/options/wait-limit.ts';
import {pieceRenderers, renderers} from '../../render/index.ts';
import type {PieceRenderer} from '../../render/renderer.ts';
import type {Report} from '../../model/report.ts';
import {BaseCommand} from './base-command.ts';

export default class CheckCommand extends BaseCommand {
  static override summary = 'Check that kube-proxy has programmed every Service on every node';
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
  static override args = {
    service: Args.string({
      description: 'NAME, svc/NAME, NAMESPACE/NAME, NAME.NAMESPACE.svc or an address; several may be given',
      required: false,
      ignoreStdin: true,
    }),
  };
  static override flags = {
    ...scopeFlags,
    ...sourceFlags,
    ...fullFlag,
    ...connectionFlags,
    ...transportFlags,
    ...agentsFlags,
    ...settingFlags,
    ...outputFlags,
    ...evaluationFlags,
    wait: Flags.string({
      description: 'check again until nothing fails and every node was checked, for at most this long (60s, 2m)',
      helpValue: 'DURATION',
      helpGroup: 'FINDINGS',
    }),
    output: Flags.string({char: 'o', description: 'output format', options: Object.keys(renderers), default: 'table', helpGroup: 'OUTPUT'}),
  };

  async run(): Promise<void> {
    const {flags, argv} = await this.parse(CheckCommand);
    refuseBesideAgents(flags);
    refuseFull(flags, argv as string[]);
    const known = this.baseline(flags.baseline);
    const options = {
      toolVersion: this.config.version,
      known,
      ...(flags.output === 'html' ? {trace: 'faulty' as const} : {}),
    };
    const report = await this.report(flags, argv as string[], options, waitLimit(flags));
    await this.#show(report, flags);
    process.exitCode ??= exitCode(report, flags['fail-on'] as FailOn);
  }

  async #show(report: Report, flags: Parameters<BaseCommand['renderOptions']>[0] & {readonly output: string}): Promise<void> {
    const options = this.renderOptions(flags);
    const format = flags.output as keyof typeof renderers;
    const pieces = (pieceRenderers as Partial<Record<string, PieceRenderer>>)[format];
    if (pieces === undefined) this.print(renderers[format](report, options), flags['output-file']);
    else await this.printPieces(pieces(report, options), flags['output-file']);
  }
}
