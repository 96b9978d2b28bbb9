import {describe, expect, test} from 'vitest';
import {needsAction, Scenario} from '../../scenario.ts';
import {programs, withoutKubeProxy} from './beside-nftables.ts';
import {ipsets, mergedDump, ruleInFront, type ThirdPartyRules} from './merge.ts';
import {EditableDump} from '../../editable-dump.ts';
import {readFixture, snapshotOf} from '../../fixtures.ts';
import {someOf} from '../../cases.ts';

const capture = 'ipvs/1.36';

/** node-a of a capture of IPVS mode, with the rules of a program in iptables, changed or not. */
async function scenarioBesideIpvs(
  {name}: Pick<ThirdPartyRules, 'name'>,
  change: (rules: EditableDump) => void = () => undefined,
): Promise<Scenario> {
  const rules = new EditableDump(merged(mergedDump(name), readFixture(`captures/${capture}/nodes/node-a/iptables-save`).toString()));
  change(rules);
  const given = new Scenario(await snapshotOf(capture));
  given.file('node-a', 'iptables-save', rules.toString());
  given.file('node-a', 'ipset-save', `${readFixture(`captures/${capture}/nodes/node-a/ipset-save`).toString()}${ipsets(name) ?? ''}`);
  return given;
}

/** The rules of a program, with the jumps of IPVS mode where those of iptables mode were in each base chain. */
function merged(program: string, ipvs: string): string {
  const others = new Set(withoutKubeProxy(program).split('\n'));
  const [mine, own] = [tables(program), tables(ipvs)];
  const text = [...new Set([...mine.keys(), ...own.keys()])].map(table => {
    const [lines, added] = [mine.get(table) ?? [], own.get(table) ?? []];
    const [kept, declared] = [lines.filter(line => others.has(line)), new Set(lines.flatMap(chainOf))];
    const chains = added.filter(line => line.startsWith(':') && !chainOf(line).every(name => declared.has(name) && isBase(name)));
    const jumps = Map.groupBy(
      added.filter(line => line.startsWith('-A ')),
      line => chainOf(line)[0] ?? '',
    );
    const rules = lines.flatMap(line => {
      const [chain = ''] = chainOf(line);
      if (!line.startsWith('-A ') || others.has(line)) return others.has(line) && line.startsWith('-A ') ? [line] : [];
      const here = jumps.get(chain) ?? [];
      jumps.delete(chain);
      return here;
    });
    return [`*${table}`, ...kept.filter(line => line.startsWith(':')), ...chains, ...rules, ...[...jumps.values()].flat(), 'COMMIT'];
  });
  return `${text.flat().join('\n')}\n`;
}

function tables(dump: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  let table: string[] = [];
  for (const line of dump.split('\n')) {
    if (line.startsWith('*')) {
      table = [];
      found.set(line.slice(1), table);
    } else if (/^(?::|-A )/.test(line)) table.push(line);
  }
  return found;
}

function chainOf(line: string): readonly string[] {
  return /^(?::|-A )(\S+)/.exec(line)?.slice(1) ?? [];
}

function isBase(name: string): boolean {
  return /^(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/.test(name);
}

/**
 * In IPVS mode the firewall of a node sees packets to Services in INPUT, and kube-proxy accepts none of them there. NodeLocal DNSCache binds
 * no cluster IP beside kube-ipvs0, which has it: untracked, the packets would still be balanced, and not be masqueraded.
 */
const others = new Set(['firewalld', 'ufw', 'nodelocal-dns-cluster-ip']);

describe('beside kube-proxy in IPVS mode', () => {
  test.each(someOf(programs.filter(({name}) => !others.has(name))))('the usual rules of $name need no action', async ({name}) => {
    expect(loud(await scenarioBesideIpvs({name}))).toEqual([]);
  });

  test('firewalld refuses packets to node ports that were not opened', async () => {
    const {code, service, message} = one(loud(await scenarioBesideIpvs({name: 'firewalld'})));
    expect({code, service}).toEqual({code: 'ST402', service: undefined});
    expect(message).toMatch(/^packets from outside the cluster to the node port \d+ are refused by a third-party rule/);
  });

  test('a firewall that admits only pods to cluster IPs needs no action', async () => {
    const rule = '-A INPUT ! -s 10.244.0.0/16 -d 10.96.0.0/16 -j DROP';
    expect(loud(await scenarioBesideIpvs({name: 'flannel'}, ruleInFront('filter', rule)))).toEqual([]);
  });

  test('ufw drops packets of pods to cluster IPs', async () => {
    const {code, message} = one(loud(await scenarioBesideIpvs({name: 'ufw'})));
    expect(code).toBe('ST402');
    expect(message).toMatch(
      /^packets from a pod of this node to the cluster IP \S+ are dropped because .* policy of filter\/INPUT is DROP/,
    );
  });

  test('a rule that accepts packets before KUBE-POSTROUTING keeps them from being masqueraded', async () => {
    const {code, message, actual} = one(loud(await scenarioBesideIpvs({name: 'flannel'}, ruleInFront('nat', '-A POSTROUTING -j ACCEPT'))));
    expect(code).toBe('ST302');
    expect(message).toContain('should be masqueraded, but a third-party rule intercepts them before KUBE-POSTROUTING');
    expect(actual?.map(({text}) => text)).toEqual(['-A POSTROUTING -j ACCEPT']);
  });

  test('what connection tracking does not know is not masqueraded: an endpoint that asks its own Service gets no answer', async () => {
    const rule = '-A PREROUTING -s 10.244.11.0/24 -d 10.96.0.0/12 -j CT --notrack';
    const {code, message, actual} = one(loud(await scenarioBesideIpvs({name: 'flannel'}, ruleInFront('raw', rule))));
    expect(code).toBe('ST302');
    expect(message).toContain('packets from the endpoint itself to the cluster IP');
    expect(actual?.map(({text}) => text)).toEqual([rule]);
  });

  test("a rule that deletes kube-proxy's mark keeps packets from being masqueraded", async () => {
    const rule = '-A OUTPUT -j MARK --set-xmark 0x1/0xffffffff';
    const {code, message, actual} = one(loud(await scenarioBesideIpvs({name: 'flannel'}, ruleInFront('mangle', rule))));
    expect(code).toBe('ST302');
    expect(message).toContain('should be masqueraded, but a third-party rule changes their mark');
    expect(actual?.map(({text}) => text)).toEqual([rule]);
  });

  test('a rule that drops packets to one Service is found beside the usual rules of Calico', async () => {
    const {code, service} = one(
      loud(await scenarioBesideIpvs({name: 'calico'}, ruleInFront('filter', '-A INPUT -d 10.96.1.1/32 -p tcp -m tcp --dport 80 -j DROP'))),
    );
    expect({code, service}).toEqual({code: 'ST402', service: {namespace: 'shop', name: 'web'}});
  });

  test('rules that drop packets to single Services are found among more Services than are probed one by one', async () => {
    const addresses = ['10.96.1.1', '10.96.0.10', '10.96.1.24', '10.96.1.16'];
    const given = await scenarioBesideIpvs({name: 'kubelet'}, dump => {
      for (const address of addresses) ruleInFront('filter', `-A INPUT -d ${address}/32 -j DROP`)(dump);
    });
    given.addService(
      ...Array.from({length: 400}, (_, index) => ({
        metadata: {namespace: 'many', name: `service-${index}`},
        spec: {clusterIP: `10.97.${Math.floor(index / 200)}.${(index % 200) + 1}`, ports: [{port: 80, protocol: 'TCP'}]},
      })),
    );
    const found = loud(given).filter(({code}) => code === 'ST402');
    expect([...new Set(found.map(({service}) => service?.name))].toSorted()).toEqual(['dns', 'external-ips', 'manual', 'web']);
  });
});

function loud(given: Scenario) {
  return given.findings({nodes: node => node === 'node-a'}).filter(finding => needsAction(finding) && /^ST[2-9]/.test(finding.code));
}

function one<T>(all: readonly T[]): T {
  const [first] = all;
  if (first === undefined || all.length > 1) throw new Error(`one finding was expected: ${JSON.stringify(all)}`);
  return first;
}
