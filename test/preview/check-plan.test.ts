/** A plan is held against real nodes of the same workload in the other mode. */
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {Ajv2020} from 'ajv/dist/2020.js';
import {describe, expect, test} from 'vitest';
import {onceAsked} from '../../src/model/once.ts';
import type {PlanCheck} from '../../src/model/preview-result.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {parsePreviewPlan} from '../../src/parse/preview-plan.ts';
import {PlanCheckRun} from '../../src/preview/check-plan.ts';
import {planCheckRenderers, planExitCode} from '../../src/render/preview/plan-check.ts';
import {previewRenderers} from '../../src/render/preview/preview-report.ts';
import {snapshotOf} from '../fixtures.ts';
import {nftScenario, replaced} from '../nft-scenario.ts';
import {scenario} from '../scenario.ts';
import {interfaces, previewOf} from './previews.ts';

const options = {color: false, width: 1000, quiet: false, verbose: false, failOn: 'error'} as const;

function planText(before: Snapshot, mode: string): string {
  return previewRenderers.json(previewOf(before, {mode}), options);
}

function checked(text: string, {api, nodes}: Snapshot): PlanCheck {
  const plan = parsePreviewPlan(text);
  if ('whyNot' in plan) throw new Error(plan.whyNot);
  const scope = (api.services ?? []).map(({metadata}) => `${metadata.namespace}/${metadata.name}`);
  const input = {api, apiAfter: api, plan: {overrides: {}, configFile: null}, notes: [], expectedOnly: false, services: scope.length};
  const run = new PlanCheckRun({...input, scope, selects: () => true}, plan);
  for (const node of nodes) run.add(node);
  return run.result();
}

function firstLine(found: PlanCheck): string {
  return planCheckRenderers.table(found, options).split('\n')[0] ?? '';
}

describe.each([
  ['healthy/1.36-iptables', 'nftables/1.36', 'nftables'],
  ['nftables/1.36', 'healthy/1.36-iptables', 'iptables'],
])('%s to %s', (before, after, mode) => {
  test('came as planned, and nothing else changed', async () => {
    const found = checked(planText(await snapshotOf(before), mode), await snapshotOf(after));
    const others = found.foretold.filter(({status}) => status !== 'came');
    expect(
      others.map(({change, status, now}) => [status, change.service.name, change.packet, change.source.kind, change.after, now]),
    ).toEqual([]);
    expect(found.foretold.length).toBeGreaterThan(20);
    expect(found.besides.map(({service, packet, source, effect}) => [service.name, packet, source.kind, effect])).toEqual([]);
    expect(firstLine(found)).toMatch(/^AS PLANNED: 3 of 3 nodes switched; (\d+) of \1 foretold changes came; nothing else changed$/);
    expect(planExitCode(found, 'error')).toBe(0);
  });
});

test('a node that is still as before is not switched, and fails nothing', async () => {
  const before = await snapshotOf('healthy/1.36-iptables');
  const found = checked(planText(before, 'nftables'), before);
  expect(found.nodes.map(({status}) => status)).toEqual(['not-switched', 'not-switched', 'not-switched']);
  expect(firstLine(found)).toBe('NOT SWITCHED: no node has the settings of the plan yet');
  expect(planExitCode(found, 'error')).toBe(0);
});

test('of three nodes the one that was switched is compared, and the others fail nothing', async () => {
  const before = await snapshotOf('healthy/1.36-iptables');
  const [switched] = (await snapshotOf('nftables/1.36')).nodes;
  const nodes = before.nodes.map(node => (node.name === switched?.name ? switched : node));
  const found = checked(planText(before, 'nftables'), {...before, nodes});
  expect(found.nodes.map(({name, status}) => `${name} ${status}`)).toEqual([
    'node-a switched',
    'node-b not-switched',
    'node-c not-switched',
  ]);
  expect(new Set(found.foretold.map(({status, change}) => `${change.node} ${status}`))).toEqual(new Set(['node-a came']));
  expect(firstLine(found)).toMatch(/^AS PLANNED: 1 of 3 nodes switched; (\d+) of \1 foretold changes came; nothing else changed$/);
  expect(planCheckRenderers.table(found, options)).toContain('not switched yet: node-b, node-c');
  expect(planExitCode(found, 'error')).toBe(0);
});

test('a loss that the plan does not have is found, on its node alone', async () => {
  const given = await scenario('nftables/1.36');
  const text = planText(await snapshotOf('healthy/1.36-iptables'), 'nftables');
  const plan = JSON.parse(text);
  // The plan without what it says of one Service is one in which that Service changes unforetold.
  const name = plan.changes.find((change: {topic?: string}) => change.topic === undefined).service.name;
  const shorter = plan.changes.filter(
    (change: {service?: {name: string}; node?: string}) => change.service?.name !== name || change.node !== 'node-b',
  );
  const found = checked(JSON.stringify({...plan, changes: shorter}), given.snapshot());
  expect(new Set(found.besides.map(({node, service}) => `${node} ${service.name}`))).toEqual(new Set([`node-b ${name}`]));
  expect(firstLine(found)).toMatch(/^DIFFERS: 3 of 3 nodes switched; .* \d+ not foretold$/);
  expect(planCheckRenderers.table(found, options)).toContain('NOT FORETOLD');
  expect(planExitCode(found, 'error')).toBe(1);
  expect(planExitCode(found, 'never')).toBe(0);
});

test('a foretold loss that did not come is said', async () => {
  const text = planText(await snapshotOf('healthy/1.36-iptables'), 'nftables');
  const plan = JSON.parse(text);
  const [first] = plan.changes.filter(({effect, topic}: {effect: string; topic?: string}) => topic === undefined && effect === 'lost');
  // As if it had been foretold the other way round.
  const swapped = plan.changes.map((change: object) => (change === first ? {...first, before: first.after, after: first.before} : change));
  const found = checked(JSON.stringify({...plan, changes: swapped}), await snapshotOf('nftables/1.36'));
  expect(found.foretold.filter(({status}) => status === 'did-not-come').map(({change}) => change.packet)).toEqual([first.packet]);
  expect(planCheckRenderers.table(found, options)).toContain('FORETOLD, AND DID NOT COME');
  expect(planExitCode(found, 'error')).toBe(1);
});

describe('senders that a rule of another program tells apart', () => {
  const drop =
    '# Generated by iptables-save v1.8.11 (nf_tables)\n*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n-A FORWARD -s 100.64.0.0/10 -j DROP\nCOMMIT\n';

  const planned = onceAsked(async () => {
    const [before, after] = [await scenario('healthy/1.36-iptables'), await scenario('nftables/1.36')];
    for (const given of [before, after]) given.leaveOut('node-c');
    before.rules('node-a').append('filter', '-A FORWARD -s 100.64.0.0/10 -j DROP');
    after.file('node-a', 'iptables-save', drop);
    return {text: planText(before.snapshot(), 'nftables'), after: after.snapshot()};
  });

  async function plannedFor(address: string): Promise<PlanCheck> {
    const {text, after} = await planned();
    expect(text).toContain('"100.64.0.1"');
    return checked(text.replaceAll('"100.64.0.1"', JSON.stringify(address)), after);
  }

  test.each(['100.64.0.1', '100.70.1.2'])('are foretold by any of them, such as %s', async address => {
    const found = await plannedFor(address);
    expect(firstLine(found)).toMatch(/^AS PLANNED: 2 of 2 nodes switched; (\d+) of \1 foretold changes came; nothing else changed$/);
  });

  test('are not foretold by a sender that is treated otherwise', async () => {
    const {besides} = await plannedFor('203.0.113.9');
    expect(new Set(besides.map(({node, source}) => `${node} ${source.address}`))).toEqual(new Set(['node-a 100.64.0.1']));
  });
});

describe('a node of which something was not read is not checked, and nothing differs', () => {
  const addresses = interfaces('172.18.0.11', '10.244.11.1');
  const [iptables, nftables] = ['healthy/1.36-iptables', 'nftables/1.36'];

  test.each([
    [iptables, nftables, 'nft.json nft.txt', 'the rules of nftables mode were not read'],
    [nftables, iptables, 'iptables-save', 'there is no iptables-save of it'],
    [nftables, iptables, 'ip6tables-save', 'there is no ip6tables-save of it'],
    [nftables, iptables, 'addresses.json', 'its addresses were not read'],
  ])('from %s to %s without %s', async (from, to, files, reason) => {
    const [before, after] = [await scenario(from), await scenario(to)];
    for (const given of [before, after]) {
      given.leaveOut('node-c');
      given.file('node-a', 'addresses.json', addresses);
    }
    const text = planText(before.snapshot(), to === iptables ? 'iptables' : 'nftables');
    for (const file of files.split(' ')) after.file('node-a', file, null);
    const found = checked(text, after.snapshot());
    expect(found.nodes[0]).toMatchObject({name: 'node-a', status: 'unread', reason: expect.stringContaining(reason)});
    expect(firstLine(found)).toMatch(
      /^INCOMPLETE: 1 of 2 nodes switched; (\d+) of \1 foretold changes came; nothing else changed; 1 of 2 nodes not checked$/,
    );
    expect(planExitCode(found, 'error')).toBe(3);
  });
});

test.each(['configz.json proxy-mode', 'configz.json proxy-mode kube-proxy-config.yaml'])(
  'a node that keeps its mode is not switched, also where its %s were not read',
  async files => {
    const given = await scenario('nftables/1.36');
    const text = planText(given.snapshot(), 'iptables');
    for (const file of files.split(' ')) given.file('node-a', file, null);
    expect(checked(text, given.snapshot()).nodes.map(({status}) => status)).toEqual(['not-switched', 'not-switched', 'not-switched']);
  },
);

test('of a node whose addresses were not read for the plan, node ports at its other addresses are not compared', async () => {
  const [before, after] = [await scenario('healthy/1.36-iptables'), await scenario('nftables/1.36')];
  for (const given of [before, after]) given.leaveOut('node-c');
  before.file('node-a', 'addresses.json', null);
  after.file('node-a', 'addresses.json', interfaces('172.18.0.11', '10.244.11.1'));
  const preview = previewOf(before.snapshot(), {mode: 'nftables'});
  expect(previewRenderers.table(preview, options)).toContain(
    '- node-a: its addresses were not read: node ports at others than those of its Node object are not compared',
  );
  const found = checked(previewRenderers.json(preview, options), after.snapshot());
  expect(found.nodes.map(({reason}) => reason)).toEqual([
    'the plan was made without its addresses: node ports at others than those of its Node object are not compared',
    undefined,
  ]);
  expect(firstLine(found)).toMatch(/^AS PLANNED: 2 of 2 nodes switched; (\d+) of \1 foretold changes came; nothing else changed$/);
});

test('a node that the plan does not have was not checked', async () => {
  const before = await snapshotOf('healthy/1.36-iptables');
  const plan = JSON.parse(planText({...before, nodes: before.nodes.slice(1)}, 'nftables'));
  const found = checked(JSON.stringify(plan), await snapshotOf('nftables/1.36'));
  expect(found.nodes[0]).toEqual({name: 'node-a', status: 'unread', reason: 'the plan does not have the node'});
  expect(planExitCode(found, 'error')).toBe(3);
});

test.each([
  ['', 'it is empty'],
  ['{', 'it is not JSON, or it is truncated'],
  ['{"schemaVersion": 1, "findings": []}', 'it is no report of preview -o json'],
  ['{"schemaVersion": 1, "changes": [], "requirements": []}', 'it has no settings of nodes: an older svc-trace wrote it'],
  ['{"schemaVersion": 1, "changes": [{}], "requirements": [], "settings": [], "scope": []}', 'change 1 in it cannot be read'],
])('%j is no plan', (text, whyNot) => expect(parsePreviewPlan(text)).toEqual({whyNot}));

test('a node with another version than the plan has is named', async () => {
  const found = checked(planText(await snapshotOf('healthy/1.36-iptables'), 'nftables'), await snapshotOf('nftables/1.33'));
  expect(found.nodes[0]).toEqual({name: 'node-a', status: 'switched', reason: 'its version is not that of the plan'});
});

test('what the node loses by a fault since the switch is not foretold', async () => {
  const given = await nftScenario(replaced(/10\.96\.1\.1 \. tcp \. 80 : goto \S+,\s+/, ''));
  const found = checked(planText(await snapshotOf('healthy/1.36-iptables'), 'nftables'), given.snapshot());
  const lost = found.besides.filter(({effect}) => effect === 'lost');
  expect(new Set(lost.map(({node, packet}) => `${node} ${packet.destination}`))).toEqual(new Set(['node-a 10.96.1.1']));
  expect(planExitCode(found, 'error')).toBe(1);
});

test('the JSON matches its schema, and a change without its status does not', async () => {
  const schema = (name: string) => JSON.parse(readFileSync(join(import.meta.dirname, `../../docs/${name}.schema.json`), 'utf8'));
  const validate = new Ajv2020({allErrors: true}).addSchema(schema('preview')).compile(schema('plan-check'));
  const found = checked(planText(await snapshotOf('healthy/1.36-iptables'), 'nftables'), await snapshotOf('nftables/1.36'));
  const printed = JSON.parse(planCheckRenderers.json(found, options));
  validate(printed);
  expect(validate.errors).toBeNull();
  const [{status: _, ...first}] = printed.foretold;
  expect(validate({...printed, foretold: [first]})).toBe(false);
});
