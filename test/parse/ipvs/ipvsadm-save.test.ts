import {describe, expect, test} from 'vitest';
import {serverKey} from '../../../src/model/virtual-server.ts';
import {parseIpvsadm} from '../../../src/parse/ipvs/ipvsadm-save.ts';
import {plainText} from '../../../src/parse/lines.ts';
import {captureNames, readFixture} from '../../fixtures.ts';

test('virtual servers are read with their real servers and lines', () => {
  const {servers, strays, truncation} = parseIpvsadm(
    [
      '-A -t 10.96.1.10:80 -s rr -p 10800',
      '-a -t 10.96.1.10:80 -r 10.244.11.4:8080 -m -w 1',
      '-a -t 10.96.1.10:80 -r 10.244.11.5:8080 -g -w 0 -x 7 -y 3',
      '-A -u 10.96.0.10:53 -s wrr',
      '-A --sctp-service 10.96.2.2:2905 -s rr',
      '-A -t [fd00:96::3]:9153 -s mh -b mh-port',
      '-a -t [fd00:96::3]:9153 -r [fd00:10::4]:9153 -i -w 2',
      '',
    ].join('\n'),
  );
  expect({strays, truncation}).toEqual({strays: [], truncation: null});
  expect(servers.map(serverKey)).toEqual(['TCP 10.96.1.10:80', 'UDP 10.96.0.10:53', 'SCTP 10.96.2.2:2905', 'TCP [fd00:96::3]:9153']);
  expect(servers[0]).toEqual({
    ...{family: 'IPv4', protocol: 'TCP', address: '10.96.1.10', port: 80, scheduler: 'rr', flags: [], persistence: 10800, line: 1},
    text: '-A -t 10.96.1.10:80 -s rr -p 10800',
    realServers: [
      {
        ...{address: '10.244.11.4', port: 8080, hostPort: '10.244.11.4:8080', forwarding: 'masquerade', weight: 1, upperThreshold: 0},
        ...{line: 2, text: '-a -t 10.96.1.10:80 -r 10.244.11.4:8080 -m -w 1'},
      },
      expect.objectContaining({hostPort: '10.244.11.5:8080', forwarding: 'route', weight: 0, upperThreshold: 7, line: 3}),
    ],
  });
  expect(servers[3]).toMatchObject({family: 'IPv6', scheduler: 'mh', flags: ['mh-port'], persistence: null});
  expect(servers[3]?.realServers[0]).toMatchObject({hostPort: '[fd00:10::4]:9153', forwarding: 'tunnel', weight: 2});
});

describe.each(captureNames('ipvs'))('the list of %s', name => {
  test('is read to the same servers as the output of ipvsadm-save', () => {
    const read = (file: string) => parseIpvsadm(readFixture(`captures/${name}/nodes/node-a/${file}`).toString());
    const bare = ({servers}: ReturnType<typeof parseIpvsadm>) =>
      servers.map(({line: _, text: __, realServers, ...server}) => ({
        ...server,
        realServers: realServers.map(({line: ___, text: ____, ...real}) => real),
      }));
    expect(read('ipvsadm-list.txt').strays).toEqual([]);
    expect(bare(read('ipvsadm-list.txt'))).toEqual(bare(read('ipvsadm-save')));
    expect(bare(read('ipvsadm-save')).length).toBeGreaterThan(50);
  });
});

test('a listed server keeps its flags', () => {
  const {servers} = parseIpvsadm('TCP  10.0.0.1:80 mh (mh-port) persistent 600 mask 255.255.0.0 ops\n');
  expect(servers[0]).toMatchObject({scheduler: 'mh', flags: ['mh-port', 'ops', 'netmask 255.255.0.0'], persistence: 600});
});

test('a number of a flag is read as the flag, as older versions of ipvsadm print it', () => {
  expect(parseIpvsadm('-A -t 10.0.0.1:80 -s mh -b flag-2\n').servers[0]?.flags).toEqual(['mh-port']);
});

test('servers of firewall marks are skipped with their real servers', () => {
  const list = 'FWM  1 rr\n  -> 10.0.0.2:0  Route 1 0 0\nTCP  10.0.0.1:80 rr\n';
  expect(parseIpvsadm(list).servers.map(({realServers}) => realServers)).toEqual([[]]);
  expect(parseIpvsadm('-A -f 1 -s rr\n-a -f 1 -r 10.0.0.2:0 -g -w 1\n')).toEqual({
    servers: [],
    unweighted: [],
    strays: [],
    contradiction: null,
    other: null,
    truncation: null,
  });
});

test('names in place of addresses are not servers, and are reported', () => {
  const {servers, strays} = parseIpvsadm('-A -t kubernetes.default:https -s rr\n');
  expect(servers).toEqual([]);
  expect(strays).toEqual([{line: 1, text: '-A -t kubernetes.default:https -s rr', server: 'TCP kubernetes.default:https'}]);
});

test('names of well-known ports are read, as ipvsadm prints them without -n', () => {
  const {servers, strays} = parseIpvsadm('TCP  10.0.0.1:https rr\n  -> 10.1.1.1:http  Masq  1  0  0\nTCP  10.0.0.2:no-such-name rr\n');
  expect(servers.map(({port, realServers}) => [port, ...realServers.map(({hostPort}) => hostPort)])).toEqual([[443, '10.1.1.1:80']]);
  expect(strays).toEqual([{line: 3, text: 'TCP  10.0.0.2:no-such-name rr', server: 'TCP 10.0.0.2:no-such-name'}]);
});

test('real servers below a virtual server with a name do not belong to the one before it', () => {
  const {servers, strays} = parseIpvsadm(
    ['TCP  10.0.0.1:80 rr', '  -> 10.1.1.1:80  Masq  1  0  0', 'TCP  web.example:http rr', '  -> 10.1.1.2:80  Masq  1  0  0', ''].join(
      '\n',
    ),
  );
  expect(servers.map(({realServers}) => realServers.map(({hostPort}) => hostPort))).toEqual([['10.1.1.1:80']]);
  expect(strays).toEqual([{line: 3, text: 'TCP  web.example:http rr', server: 'TCP web.example:http'}]);
});

test('a real server with a name is reported with the line of its virtual server', () => {
  const listed = parseIpvsadm('TCP  10.0.0.1:80 rr\n  -> 10.1.1.1:80  Masq  1  0  0\n  -> web-2:http  Masq  1  0  0\n');
  expect(listed.strays).toEqual([{line: 3, text: '-> web-2:http  Masq  1  0  0', server: 1}]);
  const saved = parseIpvsadm('-A -t 10.0.0.1:80 -s rr\n-a -t 10.0.0.1:80 -r web-2:http -m -w 1\n');
  expect(saved.strays).toEqual([{line: 2, text: '-a -t 10.0.0.1:80 -r web-2:http -m -w 1', server: 1}]);
});

test('the colors of a terminal are no part of a list, and a weight that is no number is reported', () => {
  const list = ['-A -t 10.96.1.10:80 -s rr', '-a -t 10.96.1.10:80 -r 10.244.11.4:8080 -m -w 3', ''];
  const colored = parseIpvsadm(plainText(Buffer.from(list.join('\u001b[K\n'))).toString());
  expect(colored.servers[0]).toMatchObject({scheduler: 'rr', realServers: [{weight: 3}]});
  const {servers, strays} = parseIpvsadm(list.join('\n').replace('-w 3', '-w 3?'));
  expect([servers[0]?.realServers, strays]).toEqual([[], [{line: 2, server: 1, text: '-a -t 10.96.1.10:80 -r 10.244.11.4:8080 -m -w 3?'}]]);
});

test('a last line without its newline is not read', () => {
  const {servers, truncation} = parseIpvsadm('-A -t 10.0.0.1:80 -s rr\n-A -t 10.0.0.2:8');
  expect(servers.map(serverKey)).toEqual(['TCP 10.0.0.1:80']);
  expect(truncation).toBe(2);
});

test('empty output has no server', () => {
  expect(parseIpvsadm('')).toEqual({servers: [], unweighted: [], strays: [], contradiction: null, other: null, truncation: null});
});
