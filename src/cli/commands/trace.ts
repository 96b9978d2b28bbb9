import {Args, Flags} from '@oclif/core';
import {connectionFlags} from '../options/connection-flags.ts';
import {exitCode, type FailOn} from '../../run/exit-code.ts';
import {evaluationFlags, outputFlags, scopeFlags, settingFlags, sourceFlags} from '../options/flags.ts';
import {transportFlags} from '../options/transport-flags.ts';
import {traceRenderers} from '../../render/trace-index.ts';
import {BaseCommand} from './base-command.ts';

export default class Trace extends BaseCommand {
  static override summary = 'Show the way of packets to a Service through the rules that each node really holds';
  static override description =
    'For every port and node: from each entry (cluster IP, node port, load-balancer IP, external IP) through the chains to each endpoint, with its pod, node, readiness and share of the traffic; what is missing, stale or wrong is marked.\nThe word "trace" may be left out.';
  static override examples = [
    '<%= config.bin %> web --from bundle.tgz',
    '<%= config.bin %> trace shop/web --node node-a --from ./bundle',
    '<%= config.bin %> svc/check --from ./bundle',
  ];
  static override strict = false;
  static override args = {
    service: Args.string({description: 'NAME, svc/NAME or NAMESPACE/NAME; several may be given', required: true, ignoreStdin: true}),
  };
  static override flags = {
    ...scopeFlags,
    ...sourceFlags,
    ...connectionFlags,
    ...transportFlags,
    ...settingFlags,
    ...outputFlags,
    ...evaluationFlags,
    output: Flags.string({
      char: 'o',
      description: 'output format',
      options: Object.keys(traceRenderers),
      default: 'tree',
      helpGroup: 'OUTPUT',
    }),
  };

  async run(): Promise<void> {
    const {flags, argv} = await this.parse(Trace);
    const known = this.baseline(flags.baseline);
    const options = {toolVersion: this.config.version, known, trace: true};
    const report = await this.report(flags, argv as string[], options);
    const render = traceRenderers[flags.output as keyof typeof traceRenderers];
    this.print(render(report, this.renderOptions(flags)), flags['output-file']);
    process.exitCode ??= exitCode(report, flags['fail-on'] as FailOn);
  }
}
