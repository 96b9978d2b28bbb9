import {expect, test} from 'vitest';
import {nodeFacts} from '../../src/expect/node-facts.ts';
import {environmentOf} from '../../src/judge/environment.ts';
import {askPacket, type PacketNode} from '../../src/judge/packet-query.ts';
import type {Family} from '../../src/model/family.ts';
import type {NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {snapshotOf} from '../fixtures.ts';
import {describeWith} from '../require.ts';
import {Lab, type Fact, type PlacedFlow} from './kernel/lab.ts';
import {type BackendName, comparableChains, loadRules, onlyRuleset} from './kernel/load-rules.ts';
import {expectedFates, fateOf, masqueraded} from './kernel/outcomes.ts';
import {portsOfNode, type Question, questionsOf, withAddresses} from './kernel/questions.ts';
import {chanceOf, flowsFor} from './kernel/shares.ts';

interface Case {
  readonly capture: string;
  readonly node: 'node-a' | 'node-b' | 'node-c';
  readonly backend: BackendName;
  readonly podInterface?: string;
  readonly addresses?: readonly string[];
}

const cases: readonly Case[] = [
  {capture: 'healthy/1.36-iptables', node: 'node-a', backend: 'nft'},
  {capture: 'healthy/1.36-iptables', node: 'node-a', backend: 'legacy', addresses: ['203.0.113.13']},
  {capture: 'healthy/1.23-iptables', node: 'node-a', backend: 'legacy'},
  {capture: 'healthy/1.23-iptables', node: 'node-c', backend: 'nft'},
  {capture: 'settings/masquerade-all', node: 'node-c', backend: 'nft'},
  {capture: 'settings/detect-node-cidr', node: 'node-b', backend: 'legacy'},
  {capture: 'settings/detect-interface-prefix', node: 'node-a', backend: 'nft', podInterface: 'veth7'},
];

describeWith(
  ['root', 'netns', 'nsenter', 'ip', 'conntrack', 'iptables-nft', 'ip6tables-nft', 'iptables-legacy', 'ip6tables-legacy'],
  'packet says what the kernel does',
  () => {
    test.each(cases)('$capture $node $backend', async given => {
      const snapshot = await snapshotOf(given.capture);
      const node = snapshot.nodes.find(({name}) => name === given.node);
      if (node === undefined) throw new Error('no such node');
      const number = {'node-a': 11, 'node-b': 12, 'node-c': 13}[given.node];
      const podInterface = given.podInterface ?? 'cni0';
      const addresses = given.addresses ?? [];
      let time = performance.now();
      const tick = (what: string) => { console.log(what, Math.round(performance.now() - time)); time = performance.now(); };
      await using lab = await Lab.open({number, podInterface, addresses, ports: portsOfNode(snapshot.api)});
      tick('lab');
      const rules = new Map<Family, PacketNode>();
      const here = withAddresses(node, lab.node.run('ip', ['-j', 'address']));
      for (const [family, file] of [['IPv4', 'iptables-save'], ['IPv6', 'ip6tables-save']] as const) {
        const dump = node.read(file)?.toString('utf8') ?? '';
        const loaded = loadRules(lab.node, given.backend, {family, dump});
        if (loaded.leftOut.length > 0) process.stderr.write(`left out: ${loaded.leftOut.join(' ')}\n`);
        const ruleset = onlyRuleset(dump, family);
        expect(comparableChains(loaded.ruleset)).toEqual(comparableChains(ruleset));
        rules.set(family, {node: here, ruleset, facts: nodeFacts(here, snapshot.api)});
      }
      tick('load');
      const questions = questionsOf({api: snapshot.api, number, podInterface, addresses, sayInterface: given.podInterface !== undefined});
      const plain = questions.filter(({sticky}) => !sticky).map(q => {
        const r = rules.get(q.query.family);
        if (r === undefined) throw new Error('?');
        return {q, expected: expectedFates(askPacket(q.query, r))};
      });
      tick('ask');
      const flows: {flow: PlacedFlow, at: number}[] = [];
      for (const [at, {q, expected}] of plain.entries()) {
        const n = flowsFor(Math.min(...[...expected.values()].map(e => e.probability)));
        for (let i = 0; i < n; i++) flows.push({at, flow: {from: q.from, protocol: q.query.protocol === 'TCP' ? 'tcp' : 'udp', source: q.query.source, sourcePort: lab.freshPort(), destination: q.query.destination, port: q.query.port}});
      }
      console.log(plain.length, 'questions', flows.length, 'flows');
      const facts = await lab.send(flows.map(({flow}) => flow));
      tick('send');
      const wrong: string[] = [];
      const tally: Record<string, number> = {};
      for (const [at, {q, expected}] of plain.entries()) {
        const own = flows.flatMap((f, i) => f.at === at ? [[f.flow, facts[i]] as const] : []);
        const groups = Map.groupBy(own, ([f, fact]) => fateOf(f, fact as Fact));
        const seen: string[] = [];
        for (const [fate, list] of groups) {
          const m = masqueraded(list as never);
          seen.push(`${fate}${m ? ' m' + m : ''}`);
          tally[`${q.query.family} ${q.query.protocol} ${fate.split(' ')[0]}`] = (tally[`${q.query.family} ${q.query.protocol} ${fate.split(' ')[0]}`] ?? 0) + list.length;
          const p = expected.get(fate)?.probability;
          if (p !== undefined && chanceOf({count: list.length, total: own.length, probability: p}) < 1e-9) wrong.push(`${q.title} share ${fate} ${list.length}/${own.length} p=${p}`);
        }
        const said = [...expected].map(([f, e]) => `${f}${e.masquerade ? ' mtrue' : ''}`);
        if (seen.sort().join() !== said.sort().join()) wrong.push(`${q.title}\n   said ${said.join(', ')}\n   seen ${seen.join(', ')}`);
      }
      tick('judge');
      console.log(tally);
      console.log(wrong.length, 'wrong\n' + wrong.slice(0, 15).join('\n'));
    });
  },
);
