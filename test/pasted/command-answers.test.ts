/** What commands and lists say that print no rule. */
import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {noDump} from '../../src/parse/pasted/split-text.ts';
import {said, snapshotOfText} from './trace-text.ts';

const answer = (text: string) => noDump(Buffer.from(text));
const shows = /^has no rules, and shows: /;

test('a trace whose text ends in a chain of kube-proxy in table nat has no end', () => {
  const step = (place: string) => `kernel: TRACE: ${place} IN=eth0 OUT= SRC=192.0.2.1 DST=192.0.2.7 PROTO=TCP SPT=1 DPT=80 \n`;
  const rules = '*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n';
  expect(said(rules + step('nat:PREROUTING:rule:1') + step('nat:KUBE-SERVICES:rule:25'))).toBe('');
  expect(said(rules + step('nat:PREROUTING:rule:1') + step('filter:FORWARD:policy:3'))).toMatch(/^the trace of /);
});

describe('what a command does not find', () => {
  test('is a chain of kube-proxy', () => {
    const missing = (command: string) => `# ${command}\niptables: No chain/target/match by that name.\n`;
    expect(answer(missing('iptables -t nat -L KUBE-SERVICES'))).toMatch(/^has no rules, and shows: there is no chain KUBE-SERVICES: /);
    expect(answer(missing('iptables -t nat -nvL KUBE-NODEPORTS'))).toContain('there is no chain KUBE-NODEPORTS');
    expect(answer(missing('iptables -L DOCKER'))).not.toMatch(shows);
  });

  test('is a table of kube-proxy', () => {
    const missing = (table: string) =>
      `# nft list table ${table}\nError: No such file or directory\nlist table ${table}\n              ^^^^^^^^^^\n`;
    expect(answer(missing('ip kube-proxy'))).toMatch(/^has no rules, and shows: there is no table ip kube-proxy, /);
    expect(answer(missing('inet firewalld'))).not.toMatch(shows);
  });

  test.each([
    ['another command follows', 'node2:~$ sudo iptables-save | grep 10.96.44.5\nnode2:~$ exit\n'],
    ['a fence follows', '```\n$ iptables-save -t nat | grep -i 10.96.44.5\n```\n'],
    ['it is said', '# nft list ruleset | grep 10.96.44.5\n(no output)\n'],
    ['the text ends', '# ipvsadm -Ln | grep 10.96.44.5\n'],
  ])('is an address in rules, where %s', (_, text) => {
    expect(answer(text)).toMatch(/^has no rules, and shows: \S.* has no line with 10\.96\.44\.5: kube-proxy of that node/);
  });

  test.each([
    ['lines follow', '$ iptables-save | grep 10.96.44.5\nfoo 10.96.44.5\n'],
    ['lines with it are left out', '$ iptables-save | grep -v 10.96.44.5\n$ exit\n'],
    ['the table has rules of Services that fail alone', '$ iptables -nL | grep 10.96.44.5\n$ exit\n'],
    ['it is a word of no address', '$ iptables-save | grep DROP\n$ exit\n'],
  ])('is nothing where %s', (_, text) => {
    expect(answer(text)).not.toMatch(shows);
  });
});

describe('a table that packets ask before the main one', () => {
  const asked = (rules: string, ...routes: readonly string[]) =>
    answer(`# ip rule\n${rules}\n# ip route show table 77\n${routes.join('\n')}\n#\n`);
  const rule = '88:\tfrom all lookup 77';
  const away = 'default dev wg0 scope link';

  test('is told if its default route takes packets to pods too', () => {
    expect(asked(rule, away, 'throw 192.0.2.0/24')).toMatch(
      /shows: "88: from all lookup 77" comes before .* a default route to wg0: packets to pods .* \(it has throw 192\.0\.2\.0\/24\)$/,
    );
  });

  test.each([
    ['it has no default route', rule, ['10.8.0.0/16 dev wg0']],
    ['marked packets alone ask it', '88:\tfrom all fwmark 0x1 lookup 77', [away]],
    ['it comes after the main one', '32766:\tfrom all lookup main\n32770:\tfrom all lookup 77', [away]],
    ['other routes of the main one come first', `87:\tfrom all lookup main suppress_prefixlength 0\n${rule}`, [away]],
    ['its routes are not shown', '88:\tfrom all lookup 78', [away]],
  ])('is not told where %s', (_, rules, routes) => {
    expect(asked(rules, ...routes)).not.toMatch(shows);
  });
});

test('a pod of kube-proxy or of a network plugin that does not run is named with its node', () => {
  const pods = (...rows: readonly string[]) =>
    `NAME   READY   STATUS   RESTARTS   AGE   IP   NODE\n${rows.map(row => `${row}\n`).join('')}`;
  const row = (pod: string, ready: string, status: string) =>
    `kube-system   ${pod}   ${ready}   ${status}   41 (2m ago)   3d   192.168.1.12   w2`;
  expect(answer(pods(row('kube-proxy-9vwlb', '0/1', 'CrashLoopBackOff')))).toMatch(
    /shows: kube-proxy-9vwlb of w2 is CrashLoopBackOff: the rules of Services on its node are those of before, or none/,
  );
  expect(answer(pods(row('calico-node-9vwlb', '0/1', 'Running')))).toMatch(/shows: calico-node-9vwlb of w2 is not ready: pods of its node/);
  expect(answer(pods(row('kube-proxy-9vwlb', '1/1', 'Running'), row('web-5d78c9869d-8xkq7', '0/1', 'Running')))).not.toMatch(shows);
  // Of one program once.
  const dns = ['a', 'b'].map(end => row(`coredns-5d78c9869d-8xkq${end}`, '0/1', 'CrashLoopBackOff'));
  expect(answer(pods(...dns))).toMatch(
    /shows: coredns-\S+ of w2, coredns-\S+ of w2 are CrashLoopBackOff: .* no endpoint of the DNS of the cluster/,
  );
});

test('Services with Endpoints and without an EndpointSlice are named where both lists are of the same Services', () => {
  const endpoints =
    'NAME         ENDPOINTS            AGE\nkubernetes   192.168.1.1:6443     3d\nweb          10.244.1.5:8080      3d\nidle         <none>               3d\n\n';
  const slices = (...rows: readonly string[]) =>
    `NAME         ADDRESSTYPE   PORTS   ENDPOINTS       AGE\nkubernetes   IPv4          6443    192.168.1.1     3d\n${rows.join('')}`;
  expect(answer(endpoints + slices())).toContain('Endpoints of web are in no EndpointSlice, which kube-proxy follows');
  for (const text of [
    endpoints + slices('web-x7k2p    IPv4          8080    10.244.1.5      3d\n'),
    endpoints + slices().replace(/kubernetes.*/, 'api-x7k2p    IPv4          6443    192.168.1.1     3d'),
  ])
    expect(answer(text)).not.toContain('no EndpointSlice');
});

test('Services of which the agent of Cilium knows no backend, and packets that the kernel could not track, are told', () => {
  const list = (backend: string) =>
    `ID   Frontend            Service Type   Backend\n1    10.96.0.1:443       ClusterIP      1 => 172.18.0.3:6443 (active)\n9    10.96.150.11:80     ClusterIP${backend}\n`;
  expect(answer(list(''))).toMatch(/shows: the Cilium agent knows no backend of 10\.96\.150\.11:80: /);
  expect(answer(list('      1 => 10.0.1.61:80 (active)'))).not.toMatch(shows);
  const counters = (failed: number) => `cpu=0   \tfound=1204 invalid=203 insert=0 insert_failed=${failed} drop=${failed} early_drop=0\n`;
  expect(answer(counters(81) + counters(0))).toMatch(/shows: the kernel dropped 81 packets of new flows/);
  expect(answer(counters(0))).not.toMatch(shows);
});

describe('in IPVS mode', () => {
  const said = (text: string) => diagnose(snapshotOfText(text), {toolVersion: '0.0.0'}).nodes[0]?.reason ?? '';
  const heading =
    '# ipvsadm -Ln\nIP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn\n';

  test('a list without any virtual server is told, unless rules serve the Services', () => {
    expect(said(`${heading}\n`)).toContain('ipvsadm lists no virtual server: ');
    expect(said(`${heading.replace('-Ln', '-Ln | grep 10.96')}\n`)).not.toContain('no virtual server');
    expect(said(`${heading}\n-A KUBE-SVC-TCOU7JCQXEZGVUNU -j KUBE-SEP-5V2UTJDVBQ73MZHD\n`)).not.toContain('no virtual server');
  });

  test('connections that stay at what is no endpoint any more are told', () => {
    const reals = (active: number) =>
      `TCP  10.96.1.1:2049 rr\n  -> 10.244.2.5:2049              Masq    0      ${active}          0\n  -> 10.244.1.9:2049              Masq    1      0          0\n`;
    const list = (ends: string) => `NAME  ENDPOINTS   AGE\nnfs   ${ends}   5d\n\n`;
    expect(said(list('10.244.1.9:2049') + heading + reals(3))).toContain(
      '3 connections to 10.96.1.1:2049 stay at 10.244.2.5:2049, which is none of the endpoints that kubectl lists (10.244.1.9:2049)',
    );
    expect(said(list('10.244.1.9:2049') + heading + reals(0))).not.toContain(' at 10.244.2.5');
    expect(said(list('10.244.1.9:2049,10.244.2.5:2049') + heading + reals(3))).not.toContain(' at 10.244.2.5');
  });

  test('connections that ended lately at a real server of weight 0 are told, where they are many', () => {
    const reals = (ended: number) =>
      `TCP  10.96.1.1:80 rr\n  -> 10.244.2.5:80                Masq    0      10         ${ended}\n  -> 10.244.1.9:80                Masq    1      0          243\n`;
    expect(said(heading + reals(14_048))).toContain(
      '10.244.2.5:80 has the weight 0, its endpoint is about to go, and 14048 connections ended',
    );
    expect(said(heading + reals(40))).not.toContain('has the weight 0');
  });

  test('a virtual server that was asked for and has no real server refuses connections', () => {
    const one = (command: string) => `# ${command}\n${heading.replace(/^.*\n.*\n/, '')}TCP  10.96.1.1:80 rr\n`;
    expect(said(one('ipvsadm -Ln -t 10.96.1.1:80'))).toContain(
      'ipvs/10.96.1.1 (cluster IP 10.96.1.1:80) refuses connections: the virtual server has no real server',
    );
    expect(said(one('ipvsadm -Ln -t 10.96.1.1:80'))).not.toContain('no real server is shown');
    expect(said(one('ipvsadm -Ln | grep 10.96.1.1'))).not.toContain('refuses');
    expect(said(one('ipvsadm -Ln -t 10.96.1.1:80 | head -3'))).not.toContain('refuses');
  });
});
