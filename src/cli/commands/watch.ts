import process from 'node:process';
import {Flags} from '@oclif/core';
import {Interrupted, systemClock} from '../../run/clock.ts';
import {agentsFlags, refuseBesideAgents, connectionFlags, transportFlags} from '../options/cluster-flags.ts';
import {FindingChanges, watchLines, type WatchView} from '../../run/watch/watch-lines.ts';
import * as common from '../options/flags.ts';
import {listenForKeys} from '../../run/live-screen.ts';
import {traceRenderers} from '../../render/trace-index.ts';
import {type ScrolledView, watchScreen} from '../../run/watch/watch-screen.ts';
import {escapeText} from '../../render/renderer.ts';
import {isClosedPipe} from '../terminal.ts';
import {BaseCommand} from './base-command.ts';

const {from: _from, 'max-archive-size': _size, ...nodeFlags} = common.sourceFlags;
const {'fail-on': _failOn, ...whatCounts} = common.evaluationFlags;
const {color} = common.outputFlags;

export default class WatchCommand extends BaseCommand {
  static override summary = 'Check again when Services change';
  static override description =
    `Checks again when Services change and at every interval. On a terminal it redraws the verdict, the matrix, new and resolved findings, and when each node was read. Elsewhere it prints a line for each new or resolved finding, with its time, code and node; those of one cause are one line.
q ends it with exit code 0, and Ctrl-C with 130, as "kubectl get --watch". The arrow keys, PgUp, PgDn, Home and End scroll, / filters by a text, and Enter traces the first Service of the list. The last verdict stays on the terminal.`;
  static override examples = ['<%= config.bin %> watch -n shop', '<%= config.bin %> watch shop/web --interval 10s'];
  static override strict = false;
  static override args = common.serviceArgs();
  static override flags = {
    ...common.scopeFlags,
    ...nodeFlags,
    ...connectionFlags,
    ...transportFlags,
    ...agentsFlags,
    ...common.settingFlags,
    ...whatCounts,
    color,
    verbose: common.verboseFlag('also infos, and findings of the baseline'),
    interval: Flags.string({
      description: 'check all nodes again after this time even if nothing changed (10s, 1m)',
      default: '30s',
      helpValue: 'DURATION',
      helpGroup: 'OUTPUT',
    }),
  };

  /** An interruption is its normal end, so there is no message. */
  protected override async catch(error: Error): Promise<unknown> {
    return error instanceof Interrupted ? undefined : super.catch(error);
  }

  async run(): Promise<void> {
    const {flags, argv} = await this.parse(WatchCommand);
    refuseBesideAgents(flags);
    const names = argv as string[];
    const interval = common.intervalOf(flags.interval, {least: '1s', usual: '10s'});
    const options = {toolVersion: this.config.version, known: this.baseline(flags.baseline)};
    const changes = new FindingChanges(({severity, known}) => flags.verbose || (severity !== 'info' && !known));
    const {watchCluster} = await import('../../run/watch/watch-cluster.ts');
    // A reader that closes the pipe (`| head`) ends it like a signal: everything created on the cluster is removed.
    process.stdout.once('error', error => isClosedPipe(error) && process.kill(process.pid, 'SIGTERM'));
    // The screen shows the progress.
    await this.withCluster({...flags, quiet: true, 'no-progress': true}, async live => {
      const quiet = {say: () => {}, note: () => {}, close: () => {}};
      const trace = async (service: string, width: number): Promise<string> => {
        const {diagnoseCluster} = await import('../../run/diagnose-cluster.ts');
        const one = {...flags, namespace: undefined, 'all-namespaces': false, selector: undefined};
        const traced = {...options, trace: true};
        const run = {flags: one, names: [service], options: traced, clock: systemClock, ...live, progress: quiet};
        return traceRenderers.tree(await diagnoseCluster(run), {...this.renderOptions({...flags, quiet: false}), width});
      };
      const view = this.#view(
        flags,
        `${live.cluster.description}: ${names.length > 0 ? names.join(' ') : scopeText(flags, live.cluster.namespace)}`,
        trace,
      );
      const progress = {say: (text: string) => view.say(text), note: () => {}, close: () => {}};
      // Ended by a key, the exit code is 0: nothing was interrupted.
      const quit = new AbortController();
      const signal = AbortSignal.any([live.signal, quit.signal]);
      const stopListening = 'scroll' in view ? this.#listen(view, () => quit.abort(new Interrupted('SIGINT'))) : null;
      try {
        await watchCluster({
          run: {flags, names, options, clock: systemClock, ...live, signal, progress},
          interval,
          show: (report, at, passed) => view.show(report, changes.take(report, at, passed), at),
          trouble: message => view.trouble(message),
        });
      } finally {
        stopListening?.();
        view.close();
      }
    });
  }

  #listen({scroll, take}: ScrolledView, end: () => void): (() => void) | null {
    return listenForKeys({end, scroll, take, interrupt: () => void process.kill(process.pid, 'SIGINT')});
  }

  #view(
    flags: {readonly color: string; readonly verbose: boolean},
    what: string,
    trace: (service: string, columns: number) => Promise<string>,
  ): WatchView | ScrolledView {
    const {color: inColor} = this.renderOptions({...flags, quiet: false});
    if (process.stdout.isTTY === true && process.env['TERM'] !== 'dumb')
      return watchScreen({color: inColor, what: escapeText(what), hasKeys: process.stdin.isTTY === true, trace});
    return watchLines(
      inColor,
      text => void process.stdout.write(text),
      text => void process.stderr.write(escapeText(text.trimEnd()).concat('\n')),
    );
  }
}

function scopeText(flags: {readonly 'all-namespaces'?: boolean}, namespace: string): string {
  return flags['all-namespaces'] ? 'all namespaces' : `namespace ${namespace}`;
}
