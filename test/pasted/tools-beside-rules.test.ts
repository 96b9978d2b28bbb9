/** What ufw, microk8s and `kubectl get pods` print beside pasted rules, or without any. */
import {describe, expect, test} from 'vitest';
import {noDump} from '../../src/parse/pasted/split-text.ts';
import {said} from './trace-text.ts';

const rule =
  '-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "default/kubernetes:https cluster IP" -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y\n';
const rules = `# iptables-save | grep kubernetes\n${rule}`;
describe('ufw', () => {
  const status = (...rows: readonly string[]) =>
    `Status: active\nDefault: deny (incoming), allow (outgoing), deny (routed)\nNew profiles: skip\n\nTo     Action      From\n--     ------      ----\n22/tcp     ALLOW IN    Anywhere\n${rows.join('\n')}\n`;

  test('that admits no network of pods is told', () => {
    expect(noDump(Buffer.from(status('22/tcp   ALLOW IN    Anywhere')))).toContain(
      'ufw is active, and no rule of it admits the network of pods',
    );
    expect(said(status('22/tcp   ALLOW IN    Anywhere') + rules)).toMatch(/^ufw is active/);
  });

  test.each(['Anywhere    ALLOW IN    10.42.0.0/16', 'Anywhere on cni0    ALLOW IN    Anywhere', 'Anywhere    ALLOW FWD   Anywhere'])(
    'with %s is not',
    row => {
      expect(said(status(row) + rules)).toBe('');
    },
  );
});

test('the warning of microk8s is told', () => {
  expect(noDump(Buffer.from(' WARNING:  IPtables FORWARD policy is DROP. Consider enabling traffic forwarding\n'))).toContain(
    'the policy of filter/FORWARD is DROP',
  );
});

test('an INPUT that drops and accepts nothing is told', () => {
  const input = (...more: readonly string[]) =>
    ['# iptables -S INPUT', '-P INPUT DROP', '-A INPUT -j KUBE-FIREWALL', ...more, ''].join('\n');
  expect(said(input())).toMatch(/^the policy of filter\/INPUT is DROP, and no rule of it accepts anything/);
  for (const other of ['-A INPUT -i lo -j ACCEPT', '-A INPUT -j ufw-before-input']) expect(said(input(other))).toBe('');
});

test('pods that kubectl lists with their labels show why a Service has no endpoint', () => {
  const service = 'Name:       web\nNamespace:  shop\nSelector:   app=web\nEndpoints:  <none>\n\n';
  const pod = (ready: string, labels: string) =>
    `NAME    READY   STATUS    RESTARTS   AGE   LABELS\nweb-1   ${ready}   0   20m   ${labels}\n`;
  const answer = (pods: string) => noDump(Buffer.from(service + pods));
  expect(answer(pod('1/1     Running', 'app=webapp'))).toContain(
    'No pod that is listed has the labels of its selector (app=web): web-1 has app=webapp.',
  );
  expect(answer(pod('0/1     CrashLoopBackOff', 'app=web,tier=a'))).toContain(
    'The pods that it selects are not ready: web-1 (CrashLoopBackOff).',
  );
  expect(answer(pod('1/1     Running', 'app=web'))).toContain('Which pods it selects: kubectl get pods -n shop -l app=web.');
});
