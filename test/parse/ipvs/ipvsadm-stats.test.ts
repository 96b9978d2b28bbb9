import {expect, test} from 'vitest';
import {parseIpvsadmStats} from '../../../src/parse/ipvs/ipvsadm-stats.ts';

const totals = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port               Conns   InPkts  OutPkts  InBytes OutBytes
  -> RemoteAddress:Port
TCP  10.96.1.1:80                       42      420      400    30000    90000
  -> 10.244.1.4:8080                    21      210      200    15000    45000
  -> 10.244.1.5:8080                    21      210      200    15000    45000
UDP  10.96.0.10:53                 1234567        1        1        1        1
  -> 10.244.1.9:53                 1234567        1        1        1        1
FWM  7                                   5        5        5        5        5
  -> 10.9.9.9:80                         5        5        5        5        5
TCP  [fd00:96::1]:80                     3        3        3        3        3
  -> [fd00:10::4]:8080                   3        3        3        3        3
`;

test('reads the connections of each real server', () => {
  expect(
    [...parseIpvsadmStats(totals)].map(([key, reals]) => [key, [...reals].map(([real, {connections}]) => [real, connections])]),
  ).toEqual([
    [
      'TCP 10.96.1.1:80',
      [
        ['10.244.1.4:8080', 21],
        ['10.244.1.5:8080', 21],
      ],
    ],
    ['UDP 10.96.0.10:53', [['10.244.1.9:53', 1234567]]],
    ['TCP [fd00:96::1]:80', [['[fd00:10::4]:8080', 3]]],
  ]);
});

test('reads open connections from the plain listing', () => {
  const listing = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn
TCP  10.96.1.1:80 rr persistent 600
  -> 10.244.1.4:8080              Masq    1      12         3
`;
  expect([...(parseIpvsadmStats(listing).get('TCP 10.96.1.1:80') ?? [])]).toEqual([
    ['10.244.1.4:8080', {connections: null, open: 12, closing: 3}],
  ]);
});

test('rounded numbers are not used as exact ones', () => {
  expect(parseIpvsadmStats(totals.replaceAll('1234567', '  1234K')).get('UDP 10.96.0.10:53')).toEqual(new Map());
});
