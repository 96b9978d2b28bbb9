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

test.each(['INPUT', 'OUTPUT'])('a chain %s that drops and accepts nothing is told', name => {
  const chain = (...more: readonly string[]) =>
    [`# iptables -S ${name}`, `-P ${name} DROP`, `-A ${name} -j KUBE-FIREWALL`, ...more, ''].join('\n');
  expect(said(chain())).toContain(`the policy of filter/${name} is DROP, and no rule of it accepts anything: the node `);
  for (const other of [`-A ${name} -o lo -j ACCEPT`, `-A ${name} -j ufw-before`]) expect(said(chain(other))).toBe('');
});

test('a FORWARD that drops is told of the rules that a text has, where it may have more', () => {
  const rules = ['-P INPUT ACCEPT', '-P FORWARD DROP', '-A FORWARD -j KUBE-FORWARD', '-A FORWARD -o docker0 -j DOCKER'];
  const cut = ['# iptables -S | head -4', ...rules];
  expect(said(`${cut.join('\n')}\n`)).toMatch(/no rule of it that this text has accepts .*, unless another rule accepts them$/);
  expect(said([...cut, '-A FORWARD -s 10.244.0.0/16 -j ACCEPT', ''].join('\n'))).toBe('');
});

test('an answer that nothing translated back is told', () => {
  expect(noDump(Buffer.from('/ # nslookup example.com\n;; reply from unexpected source: 10.244.1.8#53, expected 10.96.0.10#53\n'))).toMatch(
    /shows: the answer to a request to 10\.96\.0\.10 came from 10\.244\.1\.8: nothing translated it back\. .*bridge-nf-call-iptables/,
  );
});

test('pods that kubectl lists with their labels show why a Service has no endpoint', () => {
  const service = 'Name:       web\nNamespace:  shop\nSelector:   app=web\nEndpoints:  <none>\n\n';
  const pod = (ready: string, labels: string) =>
    `NAME    READY   STATUS    RESTARTS   AGE   LABELS\nweb-1   ${ready}   0   20m   ${labels}\n`;
  const answer = (pods: string) => noDump(Buffer.from(service + pods));
  expect(answer(pod('1/1     Running', 'app=webapp'))).toContain(
    'No pod of this text has the labels of the selector of shop/web (app=web): web-1 has app=webapp.',
  );
  expect(answer(pod('0/1     CrashLoopBackOff', 'app=web,tier=a'))).toContain(
    'The pods that the selector of shop/web matches are not ready: web-1 (CrashLoopBackOff).',
  );
  expect(answer(pod('1/1     Running', 'app=web'))).toContain('Which pods it selects: kubectl get pods -n shop -l app=web.');
});
