/** Programs that write chains for each pod: where these hold the same rules, their pods are one class of senders; where one differs, it is named. */
import {describe, expect, test} from 'vitest';
import {scenario} from '../../scenario.ts';

/** 40 pods: a chain with a rule for each is long enough to be searched by address. */
const pods = Array.from({length: 40}, (_, at) => `10.244.11.${2 + at}`);
const web1 = pods.indexOf('10.244.11.4');

/** The rules of table filter, by pod; what `change` makes of them is loaded. */
function calico(change: (rules: readonly string[]) => readonly string[]): readonly string[] {
  const rules = pods.flatMap((_, at) => [
    `-A cali-from-wl-dispatch -i cali${at} -m comment --comment "cali:${at}" -g cali-fw-${at}`,
    `-A cali-to-wl-dispatch -o cali${at} -m comment --comment "cali:${at}" -g cali-tw-${at}`,
    ...['fw', 'tw'].flatMap(way => [
      `-A cali-${way}-${at} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
      `-A cali-${way}-${at} -m conntrack --ctstate INVALID -j DROP`,
      `-A cali-${way}-${at} -j MARK --set-xmark 0x10000/0x10000`,
      `-A cali-${way}-${at} -m mark --mark 0x10000/0x10000 -j RETURN`,
      `-A cali-${way}-${at} -m comment --comment "Drop if no policies passed packet" -j DROP`,
    ]),
  ]);
  const unknown = ['from', 'to'].map(way => `-A cali-${way}-wl-dispatch -m comment --comment "Unknown interface" -j DROP`);
  return [
    ...['FORWARD', 'from-wl-dispatch', 'to-wl-dispatch', ...pods.flatMap((_, at) => [`fw-${at}`, `tw-${at}`])].map(
      name => `:cali-${name} - [0:0]`,
    ),
    ...[
      '-A FORWARD -j cali-FORWARD',
      '-A cali-FORWARD -i cali+ -j cali-from-wl-dispatch',
      '-A cali-FORWARD -o cali+ -j cali-to-wl-dispatch',
    ],
    ...change([...rules, ...unknown]),
  ];
}

/** As kube-router writes them: by the address of the pod, and not by its interface. */
function kubeRouter(change: (rules: readonly string[]) => readonly string[]): readonly string[] {
  const rules = pods.flatMap((address, at) => [
    `-A KUBE-ROUTER-FORWARD -d ${address}/32 -m comment --comment "to pod ${at}" -j KUBE-POD-FW-${at}`,
    `-A KUBE-ROUTER-FORWARD -s ${address}/32 -m comment --comment "from pod ${at}" -j KUBE-POD-FW-${at}`,
    `-A KUBE-POD-FW-${at} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
    `-A KUBE-POD-FW-${at} -d ${address}/32 -m addrtype --src-type LOCAL -j ACCEPT`,
    `-A KUBE-POD-FW-${at} -j MARK --set-xmark 0x10000/0x10000`,
    `-A KUBE-POD-FW-${at} -m mark ! --mark 0x10000/0x10000 -j REJECT`,
  ]);
  return [
    ...['ROUTER-FORWARD', ...pods.map((_, at) => `POD-FW-${at}`)].map(name => `:KUBE-${name} - [0:0]`),
    '-A FORWARD -j KUBE-ROUTER-FORWARD',
    ...change(rules),
  ];
}

/** The findings of the node, beside those about the API objects. */
async function found(lines: readonly string[], tables = ''): Promise<readonly string[]> {
  const given = await scenario('healthy/1.36-iptables');
  const routes = pods.map((dst, at) => ({dst, dev: `cali${at}`, scope: 'link', flags: []}));
  given.file('node-a', 'routes.json', JSON.stringify([{dst: 'default', gateway: '172.18.0.1', dev: 'eth0', flags: []}, ...routes]));
  given.file('node-a', 'ip-rules.json', JSON.stringify([{priority: 32_766, src: 'all', table: 'main'}]));
  const dump = given.rules('node-a').toString();
  const at = dump.indexOf('\n-A ', dump.indexOf('*filter\n'));
  given.file('node-a', 'iptables-save', [dump.slice(0, at), ...lines].join('\n') + dump.slice(at));
  if (tables !== '') given.file('node-a', 'nft.txt', tables);
  return given
    .findings({nodes: node => node === 'node-a'})
    .filter(({code}) => /^ST[2-4]/.test(code))
    .map(({code, severity, message, actual}) => `${code} ${severity} ${message} ${(actual ?? []).map(({text}) => text).join()}`);
}

const same = (rules: readonly string[]): readonly string[] => rules;
const without = (rule: RegExp) => (rules: readonly string[]) => rules.filter(text => !rule.test(text));
/** Puts a rule before all others of its chain. */
const withFirst =
  (...added: readonly string[]) =>
  (rules: readonly string[]) => [...added, ...rules];

describe('with a chain for each interface', () => {
  test('nothing is found where all pods may send', async () => {
    expect(await found(calico(same))).toEqual([]);
  });

  test('the pod is named whose chain drops its packets', async () => {
    const all = await found(calico(withFirst(`-A cali-fw-${web1} -p tcp -m tcp --dport 8080 -j DROP`)));
    expect(all.join('\n')).toMatch(/packets from 10\.244\.11\.4 \(pod shop\/web-1\) to .*-A cali-fw-2 -p tcp -m tcp --dport 8080 -j DROP/);
    expect(all.filter(text => !text.includes('pod shop/web-1'))).toEqual([]);
  });

  test('the pod is named whose interface a map of nftables has together with another, for all Services', async () => {
    const rule = `iifname . oifname vmap { "cali${web1}" . "eth0" : drop }`;
    const table = `table inet pairs {\n\tchain fw {\n\t\ttype filter hook forward priority filter; policy accept;\n\t\t${rule}\n\t}\n}\n`;
    const all = await found([], table);
    expect(all.join('\n')).toMatch(/packets from 10\.244\.11\.4 \(pod shop\/web-1\) to .* are sent to an endpoint and then dropped by/);
    expect(all.filter(text => !text.includes(rule))).toEqual([]);
  });

  test('the pod is named whose interface a dispatch chain lacks', async () => {
    const all = await found(calico(without(new RegExp(`-i cali${web1} `))));
    expect(all.join('\n')).toMatch(
      /packets from 10\.244\.11\.4 \(pod shop\/web-1\) to .*-A cali-from-wl-dispatch .*"Unknown interface" -j DROP/,
    );
  });

  test('the rules of two pods that do the same are both named', async () => {
    const drop = (at: number) => `-A cali-fw-${at} -p tcp -m tcp --dport 8080 -m comment --comment "hand-made" -j DROP`;
    const all = (await found(calico(withFirst(drop(web1), drop(web1 + 1))))).join('\n');
    expect(all).toContain(drop(web1));
    expect(all).toContain(drop(web1 + 1));
  });

  test('a pod is named to which replies are dropped', async () => {
    const all = await found(calico(withFirst(`-A cali-tw-${web1} -m conntrack --ctstate ESTABLISHED -j DROP`)));
    expect(all.join('\n')).toMatch(/replies to packets from 10\.244\.11\.4 \(pod shop\/web-1\) to .* are dropped/);
  });
});

describe('with a chain for each address', () => {
  test('nothing is found where all pods may send', async () => {
    expect(await found(kubeRouter(same))).toEqual([]);
  });

  test('the pod is named whose chain drops its packets', async () => {
    const all = await found(kubeRouter(withFirst(`-A KUBE-POD-FW-${web1} -s ${pods[web1]}/32 -p tcp -m tcp --dport 8080 -j DROP`)));
    expect(all.join('\n')).toMatch(/packets from 10\.244\.11\.4 \(pod shop\/web-1\) to .*-A KUBE-POD-FW-2 -s 10\.244\.11\.4\/32/);
  });

  test('the pod is named to which a rule in a long chain drops replies', async () => {
    const rules = pods.map(address => `-A FORWARD -d ${address}/32 -p udp -m udp --dport 9 -j DROP`);
    const drop = `-A FORWARD -d ${pods[web1]}/32 -m conntrack --ctstate ESTABLISHED -j DROP`;
    const all = await found([...rules, drop]);
    expect(all.join('\n')).toMatch(/replies to packets from 10\.244\.11\.4 \(pod shop\/web-1\) to .* are dropped/);
  });
});
