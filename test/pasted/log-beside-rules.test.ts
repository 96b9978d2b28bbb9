/** A log of kube-proxy that is pasted beside rules is read for why they are as they are. */
import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {noDump} from '../../src/parse/pasted/split-text.ts';
import {snapshotOfText, traceText} from './trace-text.ts';

const rules = `$ sudo iptables-save -t nat
*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
COMMIT
`;

const failing = `E0502 21:00:31.200000       1 proxier.go:1285] "Failed to execute iptables-restore" err="exit status 2 (iptables-restore v1.8.7 (legacy): unknown option \\"--random-fully\\"
Error occurred at line: 9
)"
`;

const findings = (text: string) => diagnose(snapshotOfText(text), {toolVersion: '0.0.0'}).findings;
const told = (text: string) => findings(text).filter(({code}) => code === 'ST505');

describe('a failure that is known is a finding of check and trace', () => {
  test.each([
    ['under the command that printed it', `${rules}\n$ kubectl logs -n kube-system kube-proxy-x7k2p\n${failing}`],
    ['in a fence', `\`\`\`\n${rules}\`\`\`\n\nlogs\n\n\`\`\`\n${failing}\`\`\`\n`],
    ['before the rules', `${failing}\n${rules}`],
    ['with the head of journald', `${rules}\n${failing.replace('E0502', 'May 02 21:00:31 node-a kube-proxy[812]: E0502')}`],
    ['with the head of a container runtime', `${rules}\n${failing.replace('E0502', '2026-05-02T21:00:31.2Z stderr F E0502')}`],
  ])('%s', (_, text) => {
    expect(told(text).map(({message}) => message)).toEqual([
      expect.stringMatching(/^kube-proxy on rules.txt: its log says: .*lacks an extension/),
    ]);
    expect(traceText(snapshotOfText(text)).findings.map(({code}) => code)).toEqual(['ST505']);
  });
});

test('rules after a log are read as before', () => {
  const [node] = diagnose(snapshotOfText(`${failing}\n${rules}`), {toolVersion: '0.0.0'}).nodes;
  expect(node?.rules).toBe(1);
});

test('what kubelet says is not the word of kube-proxy', () => {
  const log = `E0502 21:00:31.200000     901 kubelet.go:2292] "Error getting node" err="dial tcp 10.0.0.1:6443: connect: connection refused"\n`;
  expect(told(`${rules}\n${log}`)).toEqual([]);
  expect(told(`${rules}\n${log}${failing}`).map(({message}) => message)).toEqual([expect.stringContaining('--random-fully')]);
});

test('what a client of the API says is not the word of kube-proxy: it asks for the cluster IP', () => {
  const log =
    'E0705 14:54:18.531384       1 reflector.go:125] pkg/mod/k8s.io/client-go@v0.19.2/tools/cache/reflector.go:98: Failed to list *v1.Service: Get https://10.96.0.1:443/api/v1/services: dial tcp 10.96.0.1:443: i/o timeout\n';
  expect(told(`The logs of kube-proxy are fine.\n${rules}\n${log}`)).toEqual([]);
  expect(noDump(Buffer.from(`The logs of kube-proxy are fine.\n${log}`))).toContain(
    'shows a program that does not reach 10.96.0.1:443 (i/o timeout)',
  );
});

test('a log without a known failure is said to have none', () => {
  const text = `${rules}\nI0502 21:00:01.100000       1 server_others.go:140] Using iptables Proxier.\n`;
  expect(told(text)).toEqual([]);
  expect(findings(text).map(({message}) => message)).toEqual([
    expect.stringMatching(/of kube-proxy: its log shows no failure that is known$/),
  ]);
});

test('a log alone is answered with what it says', () => {
  expect(noDump(Buffer.from(failing))).toMatch(
    /^is a log of kube-proxy alone, which says: .*lacks an extension .*: Install the kernel modules/,
  );
});

describe('a log alone without a known failure', () => {
  const head = 'I0101 10:00:00.000000       1 proxier.go:1] "Syncing iptables rules"';
  const said = (...lines: readonly string[]) => noDump(Buffer.from([head, ...lines, ''].join('\n')));

  test('is answered with what kube-proxy says in it of the node', () => {
    const bridges = 'W0101 10:00:00.000000       1 proxier.go:269] missing br-netfilter module or unset sysctl br-nf-call-iptables';
    expect(said(bridges, head)).toMatch(/which says: missing br-netfilter module .*an endpoint on its own node.*: Load br_netfilter/);
    const noProgram =
      'E0523 18:32:14.075223       1 proxier.go:792] Failed to delete stale service IP 10.96.0.10 connections, error: exec: "conntrack": executable file not found in $PATH';
    expect(said(noProgram)).toContain('Install conntrack');
    const dial = 'E0217 05:22:51.613693       1 proxysocket.go:104] Dial failed: dial tcp 10.244.1.5:8080: connection refused';
    expect(said(dial)).toMatch(/which says: Dial failed: .*in userspace mode kube-proxy itself connects to the endpoint/);
    // Neither keeps kube-proxy from its rules.
    expect(told(`${rules}\n${bridges}\n${noProgram}\n`)).toEqual([]);
  });

  test('is answered with its last error', () => {
    expect(said('E1219 08:43:04.078410       1 graceful_termination.go:89] Try delete rs', head)).toContain(
      'in which no failure is known. Its last error is: Try delete rs. To see what a node does',
    );
    expect(said('proxier.go:7] "Reloading service iptables data"')).toContain('is a log of kube-proxy alone, without an error.');
  });
});

test('a Node that kube-proxy did without is no failure', () => {
  const missing = 'kube-proxy logs:\nW1012 21:41:08.729704       6 server.go:417] Failed to retrieve node info: nodes "node-a" not found\n';
  expect(noDump(Buffer.from(missing))).toContain('there is no Node of the name');
  expect(noDump(Buffer.from(`${missing}I1012 21:41:08.738934       6 conntrack.go:40] Setting nf_conntrack_max to 131072\n`))).toContain(
    'without an error',
  );
});

test('a module that is missing is told, whoever asks for it', () => {
  expect(noDump(Buffer.from('kubelite[33]: modprobe: FATAL: Module ip_tables not found in directory /lib/modules/7.0.0\n'))).toMatch(
    /what a command says: .* \(the kernel has no such table of iptables/,
  );
});

test('a log whose lines lost the severity and the time is read', () => {
  const lines = ['server.go:136] "Error running ProxyServer" err="open /proc/sys/net/netfilter/nf_conntrack_max: permission denied"'];
  expect(noDump(Buffer.from(['The log of kube-proxy', ...lines, ''].join('\n')))).toMatch(
    /which says: "Error running ProxyServer" .*conntrack\.maxPerCore: 0/,
  );
});

test('a line of a log that systemctl shortened is said to be shortened', () => {
  const line =
    'E0502 21:00:31.200000     901 proxier.go:1507] Failed to execute iptables-restore: exit status 2 (iptables-restore v1.4.21: Co...or directory\n';
  expect(noDump(Buffer.from(line))).toContain('The line is shortened: journalctl -u kube-proxy');
  expect(noDump(Buffer.from(failing))).not.toContain('shortened');
});
