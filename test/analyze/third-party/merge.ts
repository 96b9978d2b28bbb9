import {spawnSync} from 'node:child_process';
import {existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {fixture, readFixture, snapshotOf} from '../../fixtures.ts';
import {EditableDump} from '../../editable-dump.ts';
import type {PodObject} from '../../../src/model/api-objects.ts';
import {Scenario} from '../../scenario.ts';

/** One program's usual rules, as an input to `iptables-restore --noflush`: `-I` and `-A` put its jumps where it puts them. */
export interface ThirdPartyRules {
  readonly name: string;
  /** The healthy capture on whose node-a it runs. */
  readonly capture: string;
}

/** All programs whose rules are kept as fixtures. */
export function thirdPartyRules(): readonly ThirdPartyRules[] {
  return readdirSync(fixture('third-party'))
    .flatMap(file => /^(.*)\.iptables-restore$/.exec(file)?.[1] ?? [])
    .map(name => ({name, capture: name === 'kubelet-1.26' ? 'healthy/1.26-iptables' : 'healthy/1.36-iptables'}));
}

/** The rules of kube-proxy and of the program, as the kernel gave them back. */
export function mergedDump(name: string): string {
  return readFixture(`third-party/merged/${name}.iptables-save`).toString();
}

/** The ipsets that the rules ask, as `ipset save` prints them; null when they ask none. */
export function ipsets(name: string): string | null {
  return companion(name, 'ipset-save');
}

/** node-a of a capture with the rules of a program, and with what else the program leaves on a node. */
export async function scenarioWith({name, capture}: ThirdPartyRules): Promise<Scenario> {
  const given = new Scenario(await snapshotOf(capture));
  given.rules('node-a').become(new EditableDump(mergedDump(name)));
  given.file('node-a', 'ipset-save', ipsets(name));
  given.file('node-a', 'addresses.json', addressesWith(name, capture));
  addPodsOf(given, name);
  return given;
}

/** The pod that writes the rules of NodeLocal DNSCache. */
export function addPodsOf(given: Scenario, name: string): void {
  if (name.startsWith('nodelocal-dns')) given.api(({pods}) => ({pods: [...(pods ?? []), dnsCache]}));
}

const dnsCache: PodObject = {
  metadata: {namespace: 'kube-system', name: 'node-local-dns-x7k2p'},
  spec: {nodeName: 'node-a', hostNetwork: true, containers: [{name: 'node-cache', ports: [{containerPort: 53, protocol: 'UDP'}]}]},
  status: {phase: 'Running'},
};

/** The interfaces of node-a of a capture, with the one that the program makes. */
export function addressesWith(name: string, capture: string): string {
  const extra = companion(name, 'interface.json');
  const known: unknown[] = JSON.parse(readFixture(`captures/${capture}/nodes/node-a/addresses.json`).toString());
  return JSON.stringify(extra === null ? known : [...known, JSON.parse(extra)]);
}

function companion(name: string, suffix: string): string | null {
  const file = fixture(`third-party/${name}.${suffix}`);
  return existsSync(file) ? readFileSync(file, 'utf8') : null;
}

/**
 * Loads kube-proxy's rules and those of the program behind them into the kernel, in a network namespace of their own, and
 * reads back what is there. Rules whose match the kernel lacks are left out and named.
 */
export function loadMerged({name, capture}: ThirdPartyRules): {readonly dump: string; readonly leftOut: readonly string[]} {
  const base = withoutCounters(readFixture(`captures/${capture}/nodes/node-a/iptables-save`).toString());
  const lines = readFixture(`third-party/${name}.iptables-restore`).toString().split('\n');
  const leftOut: string[] = [];
  for (;;) {
    const {status, stdout, stderr} = restore(base, lines.join('\n'), ipsets(name) ?? '');
    if (status === 0) return {dump: stdout, leftOut};
    const failed = Number(/line:? (\d+)/.exec(stderr)?.[1]);
    const rule = lines[failed - 1];
    if (rule === undefined || !rule.startsWith('-')) throw new Error(`iptables-restore: ${stderr}`);
    leftOut.push(rule);
    lines[failed - 1] = '';
  }
}

function restore(base: string, thirdParty: string, sets: string): {status: number | null; stdout: string; stderr: string} {
  const folder = mkdtempSync(join(tmpdir(), 'third-party-'));
  try {
    for (const [file, content] of Object.entries({base, thirdParty, sets})) writeFileSync(join(folder, file), content);
    const script = [
      'ipset restore <sets',
      'iptables-nft-restore <base',
      'iptables-nft-restore --noflush <thirdParty',
      'iptables-nft-save',
    ].join(' && ');
    return spawnSync('unshare', ['--net', 'sh', '-c', script], {cwd: folder, encoding: 'utf8', maxBuffer: 2 ** 26});
  } finally {
    rmSync(folder, {recursive: true});
  }
}

/** As kube-proxy writes its rules where there is no nfacct: few kernels of test machines have it. */
function withoutCounters(dump: string): string {
  return dump
    .split('\n')
    .filter(line => !/^-A KUBE-NODEPORTS .* nfacct /.test(line))
    .map(line => line.replace(/ -m nfacct --nfacct-name {1,2}\S+/, ''))
    .join('\n');
}

/** Puts a rule in front of all others of its chain; the table is made when it is not there. */
export function ruleInFront(table: string, rule: string): (dump: EditableDump) => void {
  return dump => {
    const lines = dump.toString().split('\n');
    if (!lines.includes(`*${table}`)) lines.push(`*${table}`, ':PREROUTING ACCEPT [0:0]', ':OUTPUT ACCEPT [0:0]', 'COMMIT', '');
    const start = lines.indexOf(`*${table}`);
    const end = lines.indexOf('COMMIT', start);
    const chain = rule.split(' ', 2).join(' ');
    const place = lines.findIndex((line, at) => at > start && at < end && line.startsWith(`${chain} `));
    lines.splice(place < 0 ? end : place, 0, rule);
    dump.become(new EditableDump(lines.join('\n')));
  };
}

/** A dump without what differs from one run to the next: the time and the counters of base chains. */
export function timeless(dump: string): string {
  return dump.replace(/^(# (?:Generated|Completed)) .*$/gm, '$1').replace(/\[\d+:\d+\]/g, '[0:0]');
}
