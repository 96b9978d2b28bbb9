import {describe, expect, test} from 'vitest';
import {answerLine, topTable} from '../../src/render/top/top-table.ts';
import {trafficReport} from '../../src/traffic/measure-traffic.ts';
import {webPort} from '../checks/traffic.ts';
import {type GivenSample, natTable, sampleOf, surveyOf, tracked} from './reads.ts';
import type {NodeSurvey} from '../../src/traffic/node-survey.ts';

const entry = webPort(['10.244.1.4', '10.244.1.5']);
const survey = surveyOf(entry, {'10.244.1.4': 0.5, '10.244.1.5': 0.5});

function report(before: GivenSample | null, after: GivenSample, of: NodeSurvey = survey) {
  const read = {survey: of, before: before === null ? null : sampleOf(of, before), after: sampleOf(of, after)};
  return trafficReport([read], {toolVersion: '1.0.0', isRate: before !== null});
}

/** New, total and open connections of each endpoint. */
function cells({ports}: ReturnType<typeof report>) {
  return Object.fromEntries(
    (ports[0]?.endpoints ?? []).map(({hostPort, nodes}) => {
      const [cell] = nodes;
      return [
        hostPort.replace('10.244.1.', '').replace(':8080', ''),
        [cell?.newConnections, cell?.totalConnections, cell?.openConnections],
      ];
    }),
  );
}

describe('shares', () => {
  const conntrack = '';
  /** Of new connections on k1, whose rules are right, and on k2, whose rules have a former endpoint in place of the second. */
  const twoNodes = (k1: readonly [number, number], k2: readonly [number, number]) => {
    const right = survey;
    const stale = surveyOf(entry, {'10.244.1.4': 0.5, '10.244.1.9': 0.5}, {name: 'k2', due: {'10.244.1.4': 0.5, '10.244.1.5': 0.5}});
    const before = {at: 10, conntrack};
    const reads = [
      {survey: right, before: {...before, nat: natTable({4: 0, 5: 0})}, after: {at: 12, conntrack, nat: natTable({4: k1[0], 5: k1[1]})}},
      {survey: stale, before: {...before, nat: natTable({4: 0, 9: 0})}, after: {at: 12, conntrack, nat: natTable({4: k2[0], 9: k2[1]})}},
    ].map(({survey: of, before: one, after}) => ({survey: of, before: sampleOf(of, one), after: sampleOf(of, after)}));
    return trafficReport(reads, {toolVersion: '1.0.0', isRate: true});
  };
  const sharesOf = (found: ReturnType<typeof trafficReport>) =>
    Object.fromEntries(
      (found.ports[0]?.endpoints ?? []).map(({hostPort, totals: {dueShare, expectedShare, share}}) => [
        hostPort,
        [dueShare, expectedShare, share].map(part => Number(part?.toFixed(4))),
      ]),
    );

  test('that kube-proxy should give, that the rules give and that were counted each sum to 1', () => {
    expect(sharesOf(twoNodes([30, 30], [20, 20]))).toEqual({
      '10.244.1.9:8080': [0, 0.2, 0.2],
      '10.244.1.4:8080': [0.5, 0.5, 0.5],
      '10.244.1.5:8080': [0.5, 0.3, 0.3],
    });
    expect(sharesOf(twoNodes([0, 0], [0, 0]))).toEqual({
      '10.244.1.9:8080': [0, 0.25, Number.NaN],
      '10.244.1.4:8080': [0.5, 0.5, Number.NaN],
      '10.244.1.5:8080': [0.5, 0.25, Number.NaN],
    });
  });

  test('to an address that no longer serves are in the first line, and so is what the rules give wrongly', () => {
    expect(answerLine(twoNodes([30, 30], [20, 20]))).toMatch(
      /50\.0 new connections\/s on 2 nodes, 20% of them to 10\.244\.1\.9:8080 no longer serving/,
    );
    const missing = surveyOf(entry, {'10.244.1.4': 1}, {due: {'10.244.1.4': 0.5, '10.244.1.5': 0.5}});
    const found = report({at: 10, nat: natTable({4: 0}), conntrack}, {at: 12, nat: natTable({4: 90}), conntrack}, missing);
    expect(answerLine(found)).toContain('not spread as kube-proxy should: the rules give 10.244.1.4:8080 100%, not 50%');
  });

  test('rates are by the times of the node around the reads, with how far they can be off', () => {
    const at = (onNode: {readonly at: number; readonly width: number} | undefined, seconds: number, count: number) => ({
      ...sampleOf(survey, {at: seconds, nat: natTable({4: count, 5: 0}), conntrack}),
      ...(onNode === undefined ? {} : {onNode}),
      width: 1000,
    });
    const of = (first: number | undefined, second: number | undefined) => {
      const time = (ms: number | undefined, width: number) => (ms === undefined ? undefined : {at: ms, width});
      return trafficReport([{survey, before: at(time(first, 40), 10, 0), after: at(time(second, 60), 15, 90)}], {
        toolVersion: '',
        isRate: true,
      });
    };
    const told = of(1000, 3000);
    expect([told.interval, told.ports[0]?.totals.newPerSecond, told.nodes[0]?.rateError]).toEqual([2, 45, 0.025]);
    expect(topTable(told, {color: false, width: 200, quiet: false, wide: false})).toContain('Rates of k1 can be off by 3%');
    // Times by two clocks cannot be subtracted.
    const mixed = of(1000, undefined);
    expect([mixed.interval, mixed.nodes[0]?.rateError]).toEqual([5, 0.2]);
  });
});

describe('in iptables mode', () => {
  const conntrack = '';

  test('new connections are the difference between two reads, and their rate is per second between them', () => {
    const found = report(
      {at: 10, nat: natTable({4: 100, 5: 200}), conntrack},
      {at: 14, nat: natTable({4: 140, 5: 220}, {base: 1060}), conntrack},
    );
    expect(cells(found)).toEqual({4: [40, 140, 0], 5: [20, 220, 0]});
    expect(found.interval).toBe(4);
    expect(found.ports[0]?.totals).toMatchObject({newPerSecond: 15, measuredNodes: 1, nodes: 1});
    expect(found.nodes).toEqual([
      {name: 'k1', status: 'measured', proxyMode: 'iptables', sources: ['counters', 'conntrack'], rateError: null},
    ]);
  });

  test('one read gives totals, and no rate', () => {
    const found = report(null, {at: 10, nat: natTable({4: 100, 5: 200}), conntrack});
    expect(cells(found)).toEqual({4: [null, 100, 0], 5: [null, 200, 0]});
    expect({interval: found.interval, status: found.nodes[0]?.status}).toEqual({interval: null, status: 'measured'});
  });

  test.each([
    ['decreased counters', natTable({4: 3, 5: 2}, {base: 5})],
    ['one decreased counter, while others exceed their previous value', natTable({4: 130, 5: 199}, {base: 5})],
    ['a new endpoint', natTable({4: 140, 5: 220, 6: 10}, {base: 5})],
    ['a removed endpoint', natTable({4: 340}, {base: 5})],
  ])('%s give no rate, with the reason', (_, nat) => {
    const found = report({at: 10, nat: natTable({4: 100, 5: 200}), conntrack}, {at: 12, nat, conntrack});
    for (const counts of Object.values(cells(found))) expect(counts[0]).toBeNull();
    expect(found.ports[0]?.totals.newPerSecond).toBeNull();
    expect(found.nodes[0]).toMatchObject({
      status: 'partial',
      reason: expect.stringContaining('kube-proxy rewrote its chains between the reads'),
    });
  });

  test('a full sync that resets counters is detected by base rules and other endpoints, even if the counters exceed their previous value', () => {
    // 3 and 2 were reset and are 60 and 50 now. All that is known of the time before the reset is lost.
    const before = {at: 10, nat: natTable({4: 3, 5: 2}), conntrack};
    const found = report(before, {at: 12, nat: natTable({4: 60, 5: 50}, {base: 120, other: 10}), conntrack});
    expect(cells(found)).toEqual({4: [null, 60, 0], 5: [null, 50, 0]});
    expect(found.nodes[0]?.reason).toContain('whether it reset these counters is not known');
  });

  test('a partial sync for other Services keeps the counters of this one, as unchanged endpoints show', () => {
    const before = {at: 10, nat: natTable({4: 1000, 5: 2000}), conntrack};
    const found = report(before, {at: 12, nat: natTable({4: 1060, 5: 2050}, {base: 7}), conntrack});
    expect(cells(found)).toEqual({4: [60, 1060, 0], 5: [50, 2050, 0]});
  });

  test('a new port is not measured, as any sync may have reset it', () => {
    const before = {at: 10, nat: natTable({4: 3, 5: 2}), conntrack};
    const found = report(before, {at: 12, nat: natTable({4: 60, 5: 50}, {base: 7}), conntrack});
    expect(cells(found)).toMatchObject({4: [null, 60, 0], 5: [null, 50, 0]});
  });

  test('what was not read is null, never 0, with the reason', () => {
    const missing = {counters: 'iptables-save ended with exit code 4', conntrack: 'conntrack is not there'};
    const found = report({at: 10, missing}, {at: 12, missing});
    expect(cells(found)).toEqual({4: [null, null, null], 5: [null, null, null]});
    expect(found.nodes[0]).toMatchObject({
      ...{status: 'partial', sources: []},
      reason: 'iptables-save ended with exit code 4; open connections: conntrack is not there',
    });
  });

  test('open connections to an address that is no longer an endpoint have their own row, the first', () => {
    const nat = natTable({4: 100, 5: 200});
    const found = report(
      {at: 10, nat, conntrack: ''},
      {at: 12, nat, conntrack: tracked(1, '9') + tracked(2, '4') + tracked(3, '9', 'TIME_WAIT')},
    );
    expect(found.ports[0]?.endpoints.map(({hostPort, state, pod}) => [hostPort, state, pod])).toEqual([
      ['10.244.1.9:8080', 'stale', null],
      ['10.244.1.4:8080', 'ready', 'shop/web-4'],
      ['10.244.1.5:8080', 'ready', 'shop/web-5'],
    ]);
    expect(found.findings.map(({code, severity, endpoint}) => [code, severity, endpoint])).toEqual([['ST513', 'info', '10.244.1.9:8080']]);
  });
});

describe('in nftables mode', () => {
  const nft = surveyOf(entry, {'10.244.1.4': 0.5, '10.244.1.5': 0.5}, {mode: 'nftables'});

  test('new connections are new entries of conntrack, including ended ones', () => {
    const before = {at: 10, conntrack: tracked(1, '4') + tracked(2, '5')};
    const after = {at: 12, conntrack: tracked(1, '4') + tracked(3, '4', 'TIME_WAIT') + tracked(4, '5') + tracked(5, '5', 'CLOSE')};
    const found = report(before, after, nft);
    expect(cells(found)).toEqual({4: [1, null, 1], 5: [2, null, 1]});
    expect(found.nodes).toEqual([{name: 'k1', status: 'measured', proxyMode: 'nftables', sources: ['conntrack'], rateError: null}]);
  });

  test('a period in which conntrack deletes entries has no rate, and one read gives no totals', () => {
    const long = report({at: 10, conntrack: ''}, {at: 21, conntrack: tracked(3, '4')}, nft);
    expect(cells(long)['4']).toEqual([null, null, 1]);
    expect(long.nodes[0]?.reason).toContain('over more than 10 s conntrack forgets');
    const once = report(null, {at: 10, conntrack: tracked(3, '4')}, nft);
    expect(cells(once)['4']).toEqual([null, null, 1]);
    expect(once.nodes[0]?.status).toBe('partial');
  });
});

describe('in IPVS mode', () => {
  const ipvs = surveyOf(entry, {'10.244.1.4': 0.5, '10.244.1.5': 0.5}, {mode: 'ipvs'});
  const totals = (four: number, five: number) => `Prot LocalAddress:Port               Conns   InPkts  OutPkts  InBytes OutBytes
TCP  10.96.1.1:80                       ${four + five}      0      0    0    0
  -> 10.244.1.4:8080                    ${four}      0      0    0    0
  -> 10.244.1.5:8080                    ${five}      0      0    0    0
`;
  const listing = `Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn
TCP  10.96.1.1:80 rr
  -> 10.244.1.4:8080              Masq    1      12         3
  -> 10.244.1.5:8080              Masq    1      2          0
`;

  test('IPVS counts new connections, and open ones if conntrack was not read', () => {
    const found = report({at: 10, ipvs: [totals(5, 6)]}, {at: 12, ipvs: [totals(9, 9), listing]}, ipvs);
    expect(cells(found)).toEqual({4: [4, 9, 12], 5: [3, 9, 2]});
  });

  test('a real server that was removed and added again has no rate, as it counts from 0', () => {
    const found = report({at: 10, ipvs: [totals(50, 60)]}, {at: 12, ipvs: [totals(9, 70), listing]}, ipvs);
    expect(cells(found)).toEqual({4: [null, 9, 12], 5: [10, 70, 2]});
    expect(found.nodes[0]?.reason).toContain('10.244.1.4:8080 was removed or added again');
  });
});

test('a node that could not be read is named with the reason, and the others are counted', () => {
  const nat = natTable({4: 1, 5: 1});
  const gone: NodeSurvey = {name: 'k2', status: 'unread', reason: 'no answer within 60 s', mode: null, addresses: [], ports: []};
  const read = {survey, before: sampleOf(survey, {at: 0, nat, conntrack: ''}), after: sampleOf(survey, {at: 2, nat, conntrack: ''})};
  const found = trafficReport([{survey: gone, before: null, after: null}, read], {toolVersion: '1.0.0', isRate: true});
  expect(found.nodes.map(({name, status, reason}) => [name, status, reason])).toEqual([
    ['k1', 'measured', undefined],
    ['k2', 'unread', 'no answer within 60 s'],
  ]);
  expect(found.ports[0]?.totals).toMatchObject({newPerSecond: 0, measuredNodes: 1, nodes: 2});
});
