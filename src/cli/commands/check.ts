import {Args, Flags} from '@oclif/core';
import {agentsFlags, refuseBesideAgents} from '../options/agents-flags.ts';
import {connectionFlags} from '../options/connection-flags.ts';
import {exitCode, type FailOn} from '../../run/exit-code.ts';
import {evaluationFlags, outputFlags, scopeFlags, settingFlags, sourceFlags} from '../options/flags.ts';
import {transportFlags} from '../options/transport-flags.ts';
import {waitLimit} from '../../run/options/wait-limit.ts';
import {renderers} from '../../render/index.ts';
import {BaseCommand} from './base-command.ts';

export default class Check extends BaseCommand {
  static override summary = 'Check that Services are programmed on every node as kube-proxy should have done it';
  static override description =
    `Compares the rules found on each node with those that kube-proxy should have written for the Services and EndpointSlices of the API.
Exit codes: 0 all well, 1 a finding reaches --fail-on, 2 wrong use, 3 something could not be read and nothing that was read fails.`;
  static override examples = [
    '<%= config.bin %> check -A --from bundle.tgz',
    '<%= config.bin %> check shop/web --from ./bundle -o json',
    '<%= config.bin %> check shop/web --wait 2m',
    '<%= config.bin %> check -n shop -l tier=web --fail-on warning --from ./bundle',
  ];
  static override strict = false;
  static override args = {
    service: Args.string({description: 'NAME, svc/NAME or NAMESPACE/NAME; several may be given', required: false, ignoreStdin: true}),
  };
  static override flags = {
    ...scopeFlags,
    ...sourceFlags,
    ...connectionFlags,
    ...transportFlags,
    ...agentsFlags,
    ...settingFlags,
    ...outputFlags,
    ...evaluationFlags,
    wait: Flags.string({
      description: 'check again until nothing reaches --fail-on and nothing is unread, or this time is up (60s, 2m)',
      helpValue: 'DURATION',
      helpGroup: 'JUDGING',
    }),
    output: Flags.string({char: 'o', description: 'output format', options: Object.keys(renderers), default: 'table', helpGroup: 'OUTPUT'}),
  };

  async run(): Promise<void> {
    const {flags, argv} = await this.parse(Check);
    refuseBesideAgents(flags);
    const known = this.baseline(flags.baseline);
    const options = {
      toolVersion: this.config.version,
      known,
      ...(flags.output === 'html' ? {trace: 'faulty' as const} : {}),
    };
    const report = await this.report(flags, argv as string[], options, waitLimit(flags));
    const render = renderers[flags.output as keyof typeof renderers];
    this.print(render(report, this.renderOptions(flags)), flags['output-file']);
    process.exitCode ??= exitCode(report, flags['fail-on'] as FailOn);
  }
}
