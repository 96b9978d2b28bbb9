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

  test('without its policies is told beside somebody who gets no answer', () => {
    const brief = 'Status: active\n\nTo     Action      From\n--     ------      ----\n22/tcp     ALLOW       Anywhere\n';
    const late = 'Get https://10.96.0.1:443/api: dial tcp 10.96.0.1:443: i/o timeout\n';
    expect(noDump(Buffer.from(brief + late))).toContain('ufw is active, and no rule of it admits the network of pods: by default it drops');
    expect(noDump(Buffer.from(brief))).not.toContain('ufw is active');
    expect(noDump(Buffer.from(late + status().replace('deny (routed)', 'allow (routed)')))).not.toContain('ufw is active');
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
  const drops = ['-A FORWARD -o docker0 -j DROP', '-A FORWARD -s 192.0.2.7/32', '-A FORWARD -m conntrack --ctstate INVALID -j DROP'];
  expect(said(['# iptables -S | grep DROP', '-P FORWARD DROP', ...drops, ''].join('\n'))).toBe('');
});

test('a whole table filter without KUBE-FORWARD lets no masqueraded packet pass either', () => {
  const filter = (...rules: readonly string[]) => said(`*filter\n:FORWARD DROP [0:0]\n${rules.map(rule => `${rule}\n`).join('')}COMMIT\n`);
  expect(filter('-A FORWARD -o docker0 -j DOCKER')).toContain('no jump to KUBE-FORWARD of kube-proxy lets masqueraded ones pass either');
  expect(filter('-A FORWARD -j KUBE-FORWARD', '-A FORWARD -o docker0 -j DOCKER')).toMatch(/only masqueraded ones pass, by KUBE-FORWARD$/);
});

test('a FORWARD whose last rule refuses all is told unless a rule before it accepts', () => {
  const forward = (last: string, ...first: readonly string[]) =>
    said(['# iptables -S FORWARD', '-P FORWARD ACCEPT', '-A FORWARD -j KUBE-FORWARD', ...first, `-A FORWARD ${last}`, ''].join('\n'));
  const all = '-j REJECT --reject-with icmp-host-prohibited';
  expect(forward(all)).toContain(
    `"-A FORWARD ${all}" (table filter) stops all packets, and no rule before it accepts packets between pods`,
  );
  expect(forward(all, '-A FORWARD -s 10.42.0.0/16 -j ACCEPT')).toBe('');
  expect(forward(all, '-A FORWARD -j cali-FORWARD')).toBe('');
  expect(forward(`-i eth1 ${all}`)).toBe('');
});

test('a FORWARD that drops, with rules of ufw, is told unless a network plugin accepts', () => {
  const rules = ['# iptables -S FORWARD', '-P FORWARD DROP', '-A FORWARD -j ufw-before-forward', '-A FORWARD -j ufw-reject-forward', ''];
  expect(said(rules.join('\n'))).toMatch(
    /no rule of it accepts .*, unless a rule of ufw for what passes the node \(ufw route\) accepts them$/,
  );
  expect(said([...rules, '-A FORWARD -j FLANNEL-FWD', ''].join('\n'))).toBe('');
});

describe('a DROP of all packets', () => {
  const docker = (...rules: readonly string[]) => said(['# iptables -S DOCKER-USER', '-N DOCKER-USER', ...rules, ''].join('\n'));

  test('in DOCKER-USER is told, with the network that it spares', () => {
    const drops = /^"-A DOCKER-USER -j DROP" \(table filter\) drops every packet that comes to it: those of pods too, unless/;
    expect(docker('-A DOCKER-USER -j DROP')).toMatch(drops);
    expect(docker('-A DOCKER-USER -p tcp -m tcp --dport 443 -j RETURN', '-A DOCKER-USER -j DROP')).toMatch(drops);
    expect(docker('-A DOCKER-USER ! -s 192.168.0.0/16 -j DROP')).toContain('drops packets that are not from 192.168.0.0/16');
  });

  test.each([
    ['an uplink', ['-A DOCKER-USER -i eth0 -j DROP']],
    ['a source', ['-A DOCKER-USER -s 192.0.2.7/32 -j DROP']],
    ['what a rule of a network leaves', ['-A DOCKER-USER -s 10.244.0.0/16 -j RETURN', '-A DOCKER-USER -j DROP']],
  ])('is nothing where it is of %s', (_, rules) => {
    expect(docker(...rules)).toBe('');
  });

  test('in OUTPUT is told', () => {
    const output = (...rules: readonly string[]) => said(['# iptables -S OUTPUT', '-P OUTPUT ACCEPT', ...rules, ''].join('\n'));
    expect(output('-A OUTPUT -o lo -j ACCEPT', '-A OUTPUT -j DROP')).toContain(
      'drops every packet that comes to it: those of the node itself',
    );
    expect(output('-A OUTPUT -d 10.0.0.0/8 -j ACCEPT', '-A OUTPUT -j DROP')).toBe('');
  });
});

test('packets that rp_filter drops at an uplink are told where both networks are private', () => {
  const line = (from: string, to: string) => `[912228.409488] IPv4: martian source ${to} from ${from}, on dev eth0\n`;
  const dropped = 'the kernel drops what 10.10.0.7 sends to 10.244.1.5 and comes in by eth0';
  expect(noDump(Buffer.from(line('10.10.0.7', '10.244.1.5')))).toContain(dropped);
  for (const noise of [line('203.0.113.7', '10.244.1.5'), line('10.10.0.7', '10.244.1.255'), line('10.10.0.7', '10.10.0.8')])
    expect(noDump(Buffer.from(noise))).not.toContain('the kernel drops');
});

test('an answer in a capture that the client refuses, as nothing translated it back, is told', () => {
  const capture = (...packets: readonly string[]) => Buffer.from(packets.map(packet => `21:03:11.1 IP ${packet}, length 0\n`).join(''));
  const asked = '10.244.0.3.4411 > 10.96.0.7.80: Flags [S]';
  const answered = '10.244.0.5.8080 > 10.244.0.3.4411: Flags [S.]';
  const refused = '10.244.0.3.4411 > 10.244.0.5.8080: Flags [R]';
  const told = 'the answer to a request to 10.96.0.7 came from 10.244.0.5: nothing translated it back';
  expect(noDump(capture(asked, answered, refused))).toContain(told);
  // A capture of all interfaces, or of a bridge, has both sides of the translation, on the way back too where there is one.
  const translated = '10.244.0.3.4411 > 10.244.0.5.8080: Flags [S]';
  const back = '10.96.0.7.80 > 10.244.0.3.4411: Flags [S.]';
  expect(noDump(capture(asked, translated, answered, refused))).toContain(told);
  expect(noDump(capture(asked, translated, answered, back, refused))).not.toContain(told);
  expect(noDump(capture(asked, answered))).not.toContain(told);
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
    'no pod of this text has the labels of the selector of shop/web (app=web): web-1 has app=webapp.',
  );
  expect(answer(pod('0/1     CrashLoopBackOff', 'app=web,tier=a'))).toContain(
    'the pods that the selector of shop/web matches are not ready: web-1 (CrashLoopBackOff).',
  );
  const ready = 'pods that the selector of shop/web matches are ready (web-1), and it has no endpoint: ';
  const behind = 'they are in another namespace, or kube-controller-manager, which writes EndpointSlices, does not follow';
  expect(answer(pod('1/1     Running', 'app=web'))).toContain(`${ready}${behind}`);
  expect(
    noDump(
      Buffer.from(
        service.replace('Selector:', 'Port: http 80/TCP\nTargetPort: web-http/TCP\nSelector:') + pod('1/1     Running', 'app=web'),
      ),
    ),
  ).toContain(`${ready}no container of theirs has a port of the name web-http (targetPort), ${behind}`);
});

test('a chain INPUT that stops all but some ports is told, unless one of them is of the cluster', () => {
  const input = (...rules: readonly string[]) =>
    said(
      ['-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT', '-A INPUT -i lo -j ACCEPT', ...rules, '-A INPUT -j DROP', ''].join('\n'),
    );
  const port = (ports: string) => `-A INPUT -p tcp -m multiport --dports ${ports} -j ACCEPT`;
  expect(input(port('22,443'))).toContain(
    '"-A INPUT -j DROP" (table filter) stops all packets, and no rule before it accepts more than port 22,443: the node gets nothing else',
  );
  for (const rule of [
    port('22,10250'),
    port('30000:32767'),
    '-A INPUT -s 10.244.0.0/16 -j ACCEPT',
    '-A INPUT -i cni0 -j ACCEPT',
    '-A INPUT -j cali-INPUT',
  ])
    expect(input(rule)).toBe('');
});

test('a rule that takes what pods send to a port of any address is told', () => {
  const prerouting = (rule: string) => said(`-A PREROUTING ${rule} -j REDIRECT --to-ports 8080\n`);
  expect(prerouting('-p tcp -m tcp --dport 80')).toContain('names no interface and no destination: what pods send to that port');
  for (const rule of [
    '-i eth0 -p tcp -m tcp --dport 80',
    '-d 192.0.2.3/32 -p tcp -m tcp --dport 80',
    '-p tcp -m tcp --dport 80 -m addrtype --dst-type LOCAL',
  ])
    expect(prerouting(rule)).toBe('');
});
