import process from 'node:process';
import {Flags} from '@oclif/core';
import type {NodeTraffic, PortTotals, TrafficReport} from '../../model/traffic/traffic-report.ts';
import {escapeText} from '../../render/renderer.ts';
import {topRenderers} from '../../render/top/top-table.ts';
import {systemClock} from '../../run/clock.ts';
import {listenForKeys} from '../../run/live-screen.ts';
import {topScreen} from '../../run/top/top-screen.ts';
import type {TopRun} from '../../run/top/top-session.ts';
import {connectionFlags, transportFlags} from '../options/cluster-flags.ts';
import {diagnoseOptions} from '../options/diagnose-options.ts';
import * as common from '../options/flags.ts';
import {type ArchiveFlag, BaseCommand, type LiveFlags} from './base-command.ts';
import {wrongUse} from '../../run/wrong-use.ts';

const {from: _from, ...nodeFlags} = common.sourceFlags;
const {verbose: _verbose, ...outputOfAll} = common.outputFlags;
const output = {...outputOfAll, quiet: common.quietFlag('print the answer only, without the table')};

export default class TopCommand extends BaseCommand {
  static override summary = 'Show who gets the connections of a Service';
  static override description =
    `Shows new and open connections by endpoint and node, beside the share that the rules give. New connections are counted by the rules in iptables mode and by IPVS in IPVS mode; open ones, and all in nftables mode, by conntrack. Nothing is reset, and no accounting is switched on.
On a terminal the table refreshes until q or Ctrl-C; / filters, s sorts, and the last answer stays; with --once, with -o json and away from a terminal there are two reads and one report. "-" is "not measured"; the reason is below the table.`;
  static override examples = [
    '<%= config.bin %> top shop/web',
    '<%= config.bin %> top -n shop --once -o wide',
    '<%= config.bin %> top shop/web --from before.tgz --from after.tgz',
  ];
  static override strict = false;
  static override args = common.serviceArgs();
  static override flags = {
    ...common.scopeFlags,
    from: Flags.string({
      description: 'count by a bundle of "capture --counters": one gives totals, two (the older one first) give rates',
      ...common.repeatable,
      helpValue: 'BUNDLE',
      helpGroup: 'NODES',
    }),
    ...nodeFlags,
    ...connectionFlags,
    ...transportFlags,
    ...common.settingFlags,
    ...output,
    interval: Flags.string({description: 'between two reads (2s, 1m)', default: '2s', helpValue: 'DURATION', helpGroup: 'OUTPUT'}),
    once: Flags.boolean({description: 'two reads and one report', helpGroup: 'OUTPUT'}),
    output: common.outputFlag(topRenderers, 'table'),
  };

  async run(): Promise<void> {
    const {flags, argv} = await this.parse(TopCommand);
    const names = argv as string[];
    const interval = common.intervalOf(flags.interval, {least: '500ms', usual: '2s'});
    const render = {...this.renderOptions({...flags, verbose: false})};
    const print = (report: TrafficReport): void => {
      this.print(topRenderers[flags.output as keyof typeof topRenderers](report, render), flags['output-file']);
      if (isUnmeasured(report)) process.exitCode ??= 3;
    };
    const {from, ...rest} = flags;
    if (from !== undefined) return print(await this.#ofBundles(from, rest, names));
    const isLive = !flags.once && flags.output !== 'json' && flags['output-file'] === undefined && isTerminal();
    const top = {flags: rest, names, interval, toolVersion: this.config.version, clock: systemClock};
    await (isLive ? this.#live(top, render.color, flags.output === 'wide') : this.#once(top, print));
  }

  async #ofBundles(
    from: readonly string[],
    flags: Parameters<typeof diagnoseOptions>[0] & ArchiveFlag,
    names: readonly string[],
  ): Promise<TrafficReport> {
    const [first = '', second, ...more] = from;
    if (more.length > 0) throw wrongUse('--from takes one bundle for totals, or two for rates');
    const {topOfBundles} = await import('../../run/top/top-bundles.ts');
    const [before, after] =
      second === undefined
        ? [null, await this.snapshot(first, flags)]
        : [await this.snapshot(first, flags), await this.snapshot(second, flags)];
    return topOfBundles({before, after}, {...diagnoseOptions(flags, names, after), toolVersion: this.config.version});
  }

  async #once(top: TopInput, show: (report: TrafficReport) => void): Promise<void> {
    const {topCluster} = await import('../../run/top/top-session.ts');
    const never = new AbortController().signal;
    await this.withCluster(top.flags, live => topCluster({run: {...top, ...live}, show, once: true, ended: never}));
  }

  async #live(top: TopInput, color: boolean, wide: boolean): Promise<void> {
    const {topCluster} = await import('../../run/top/top-session.ts');
    const stop = new AbortController();
    // The screen shows the progress.
    await this.withCluster({...top.flags, quiet: true, 'no-progress': true}, async live => {
      const what = `${live.cluster.description}  every ${top.interval / 1000} s`;
      const screen = topScreen({color, wide, what: escapeText(what)});
      const close = listenForKeys({take: screen.take, end: () => stop.abort(), interrupt: () => void process.kill(process.pid, 'SIGINT')});
      const progress = {say: (text: string) => screen.say(text), note: () => {}, close: () => {}};
      try {
        await topCluster({run: {...top, ...live, progress}, show: report => screen.show(report), once: false, ended: stop.signal});
      } finally {
        close?.();
        screen.close();
      }
    });
  }
}

type TopInput = Omit<TopRun, 'cluster' | 'signal' | 'progress'> & {readonly flags: LiveFlags};

function isTerminal(): boolean {
  return process.stdout.isTTY === true && process.env['TERM'] !== 'dumb';
}

/** A node is unread, or nothing was counted on it, or there is none with connections to count, or what was read counts none of the endpoints. */
function isUnmeasured({nodes, ports, interval}: TrafficReport): boolean {
  const nothingOf = ({status, sources}: NodeTraffic): boolean => status === 'unread' || (status === 'partial' && sources.length === 0);
  if (nodes.some(nothingOf) || nodes.every(({status}) => status === 'unsupported')) return true;
  const served = ports.filter(({endpoints}) => endpoints.length > 0).map(({totals}) => totals);
  const isUncounted = ({newPerSecond, totalConnections, openConnections}: PortTotals): boolean =>
    (interval === null ? totalConnections : newPerSecond) === null && openConnections === null;
  return served.length > 0 && served.every(isUncounted);
}
