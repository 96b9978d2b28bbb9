import {cpSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {podAddress} from './address-plan.ts';
import type {ClusterSize} from './cluster-size.ts';
import {type Cost, measure} from './measure.ts';
import {programs} from './programs.ts';
import {say} from './say.ts';
import {medianCost, minCost} from './statistics.ts';
import {writeCluster} from './subject.ts';

/** What a check of a node costs that has these rules of other programs. */
interface OtherRulesRow {
  readonly name: string;
  readonly rules: string;
  readonly median: Cost;
  readonly least: Cost;
  /** How many checks of the same node without them that is, of CPU time. */
  readonly timesNone: number;
}

export interface OtherRules {
  readonly size: ClusterSize;
  readonly rows: readonly OtherRulesRow[];
}

const workloads = 150;
const banned = 2_000;
const listed = 60_000;

/** The names of workloads' interfaces: their fifth character decides in which chain Calico looks for them. */
const interfaces: readonly string[] = Array.from({length: workloads}, (_, at) => `cali${(at % 16).toString(16)}${at}`);

/**
 * The rules of a node with a workload behind each of these interfaces, as Calico writes them. Each has two policies: one names a set of
 * peers, the other allows all. https://github.com/projectcalico/calico/tree/master/felix/rules
 */
function calico(): readonly string[] {
  const first = [...new Set(interfaces.map(name => name.slice(0, 5)))];
  const dispatches = ['from', 'to'].flatMap(way => ['', ...first.map(name => `-${name.at(-1)}`)].map(end => `${way}-wl-dispatch${end}`));
  const perWorkload = interfaces.flatMap((name, at) => [`tw-${name}`, `fw-${name}`, `pi-peers-${at}`, `pi-all-${at}`]);
  const mark = '-j MARK --set-xmark 0x10000/0x10000';
  const marked = '-m mark --mark 0x10000/0x10000';
  return [
    ...['FORWARD', ...dispatches, ...perWorkload].map(name => `:cali-${name} - [0:0]`),
    '-A FORWARD -m comment --comment "cali:wUHhoiAYhphO9Mso" -j cali-FORWARD',
    '-A cali-FORWARD -j MARK --set-xmark 0x0/0xe0000',
    ...['-A cali-FORWARD -i cali+ -j cali-from-wl-dispatch', '-A cali-FORWARD -o cali+ -j cali-to-wl-dispatch'],
    ...[['from', '-i'] as const, ['to', '-o'] as const].flatMap(([way, flag]) => [
      ...first.map(name => `-A cali-${way}-wl-dispatch ${flag} ${name}+ -g cali-${way}-wl-dispatch-${name.at(-1)}`),
      ...interfaces.map(name => `-A cali-${way}-wl-dispatch-${name[4]} ${flag} ${name} -g cali-${way[0]}w-${name}`),
      ...dispatches.filter(name => name.startsWith(way)).map(name => `-A cali-${name} -m comment --comment "Unknown interface" -j DROP`),
    ]),
    ...interfaces.flatMap((name, at) => [
      ...['fw', 'tw'].flatMap(way => [
        `-A cali-${way}-${name} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
        `-A cali-${way}-${name} -m conntrack --ctstate INVALID -j DROP`,
        `-A cali-${way}-${name} -j MARK --set-xmark 0x0/0x10000`,
      ]),
      `-A cali-fw-${name} ${mark}`,
      `-A cali-fw-${name} ${marked} -j RETURN`,
      ...['peers', 'all'].flatMap(policy => [`-A cali-tw-${name} -j cali-pi-${policy}-${at}`, `-A cali-tw-${name} ${marked} -j RETURN`]),
      `-A cali-tw-${name} -m comment --comment "Drop if no policies passed packet" -j DROP`,
      `-A cali-pi-peers-${at} -p tcp -m set --match-set cali40s:${at} src -m multiport --dports 8080 ${mark}`,
      `-A cali-pi-all-${at} ${mark}`,
    ]),
  ];
}

/** Each from another network, so that no two rules are about the same senders. */
function bans(): readonly string[] {
  return [
    ...[':f2b-sshd - [0:0]', '-A FORWARD -j f2b-sshd'],
    ...Array.from({length: banned}, (_, at) => `-A f2b-sshd -s 203.${at >> 8}.${at & 255}.7/32 -j DROP`),
  ];
}

/** No two of its addresses are neighbors. */
function blocklist(): string {
  const addresses = Array.from({length: listed}, (_, at) => `add blocklist 203.${at >> 8}.${at & 255}.7\n`);
  return `create blocklist hash:ip family inet hashsize 1024 maxelem 65536\n${addresses.join('')}`;
}

function writeFacts(node: string): void {
  const write = (file: string, value: unknown): void => writeFileSync(join(node, file), JSON.stringify(value));
  const addresses = JSON.parse(readFileSync(join(node, 'addresses.json'), 'utf8')) as readonly unknown[];
  const links = interfaces.map((ifname, at) => ({ifindex: 10 + at, ifname, flags: ['UP'], mtu: 1500, operstate: 'UP', addr_info: []}));
  write('addresses.json', [...addresses, ...links]);
  write('links.json', [...addresses, ...links]);
  const routes = interfaces.map((dev, at) => ({dst: podAddress('IPv4', 0, at), dev, scope: 'link', flags: []}));
  write('routes.json', [{dst: 'default', gateway: '172.18.0.1', dev: 'eth0', flags: []}, ...routes]);
  write(
    'ip-rules.json',
    [0, 32_766].map(priority => ({priority, src: 'all', table: priority === 0 ? 'local' : 'main'})),
  );
  const sets = interfaces.map((_, at) => `create cali40s:${at} hash:net family inet\nadd cali40s:${at} 10.128.${at % 8}.0/24\n`);
  writeFileSync(join(node, 'ipset-save'), sets.join('') + blocklist());
}

/** Chains and rules, to the beginning of those of table filter. */
function addRules(node: string, lines: readonly string[]): void {
  const file = join(node, 'iptables-save');
  const dump = readFileSync(file, 'latin1');
  const at = dump.indexOf('\n-A ', dump.indexOf('*filter\n'));
  writeFileSync(file, [dump.slice(0, at), ...lines].join('\n') + dump.slice(at), 'latin1');
}

/** Checks of one node with rules of other programs, beside the same node without: each one's own facts of interfaces and routes are there. */
export async function measureOtherRules(size: ClusterSize, rounds: number, temp: string): Promise<OtherRules> {
  const dir = join(temp, 'other-rules');
  const {bundles} = await writeCluster(size, dir);
  const [nodeName = ''] = bundles.nodes;
  const added = [
    {name: 'none', lines: [] as readonly string[]},
    {name: `Calico, ${2 * workloads} policies`, lines: calico()},
    {name: `${banned} banned addresses`, lines: bans()},
    {name: `a set of ${listed} addresses`, lines: ['-A FORWARD -m set --match-set blocklist src -j DROP']},
  ];
  const subjects = added.flatMap(({name, lines}) => {
    const bundle = join(dir, name.replaceAll(/\W+/g, '-'));
    cpSync(bundles.before, bundle, {recursive: true});
    const node = join(bundle, 'nodes', nodeName);
    writeFacts(node);
    addRules(node, lines);
    return programs().map(program => ({...program, rules: name, bundle, costs: [] as Cost[]}));
  });
  for (let round = 1; round <= rounds; round++) {
    say(`rules of other programs, round ${round} of ${rounds}`);
    for (const {command, bundle, rules, costs} of subjects) {
      const measured = await measure([...command, 'check', '-A', '--node', nodeName, '--from', bundle, '-o', 'json'], temp);
      assertHealthy(measured, rules);
      costs.push(measured);
    }
  }
  rmSync(dir, {recursive: true});
  const rows = subjects.map(({name, rules, costs}) => ({name, rules, median: medianCost(costs), least: minCost(costs)}));
  return {
    size,
    rows: rows.map(row => {
      const none = rows.find(({name, rules}) => name === row.name && rules === 'none');
      return {...row, timesNone: row.median.cpuSeconds / (none?.median.cpuSeconds ?? Number.NaN)};
    }),
  };
}

/** Throws unless the node was checked, and nothing is an error: banned addresses are nobody's in the cluster. */
function assertHealthy({exitCode, stdout}: {readonly exitCode: number; readonly stdout: string}, rules: string): void {
  const {summary, findings} = JSON.parse(stdout) as {
    summary: {nodesChecked: number};
    findings: readonly {code: string; severity: string}[];
  };
  const errors = findings.filter(({severity, code}) => severity === 'error' && !code.startsWith('ST1'));
  if (exitCode === 2 || summary.nodesChecked !== 1 || errors.length > 0)
    throw new Error(`check of a node with these rules (${rules}): exit code ${exitCode}, ${JSON.stringify(errors.slice(0, 2), null, 2)}`);
}

export function otherRulesTable({size, rows}: OtherRules): string {
  const line = (name: string, figures: readonly string[]) => `  ${name.padEnd(44)}${figures.map(figure => figure.padStart(9)).join('')}`;
  return [
    `check -A of one node with rules of other programs, ${size.services} Services x ${size.endpoints} endpoints`,
    line('', ['CPU s', 'least', 'x none', 'MiB']),
    ...rows.map(({name, rules, median, least, timesNone}) =>
      line(`${name}: ${rules}`, [
        ...[median.cpuSeconds, least.cpuSeconds, timesNone].map(figure => figure.toFixed(2)),
        median.peakMebibytes.toFixed(0),
      ]),
    ),
  ].join('\n');
}
