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
    'of a program that does not reach 10.96.0.1:443 (i/o timeout)',
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

test('a line of a log that systemctl shortened is said to be shortened', () => {
  const line =
    'E0502 21:00:31.200000     901 proxier.go:1507] Failed to execute iptables-restore: exit status 2 (iptables-restore v1.4.21: Co...or directory\n';
  expect(noDump(Buffer.from(line))).toContain('The line is shortened: journalctl -u kube-proxy');
  expect(noDump(Buffer.from(failing))).not.toContain('shortened');
});
