import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {ServiceObject, ServiceSpec} from '../../src/model/api-objects.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {renderers} from '../../src/render/renderers.ts';
import {traceRenderers} from '../../src/render/trace-index.ts';
import {snapshotOf, withFiles} from '../fixtures.ts';
import {findingsOf, needsAction, scenario} from '../scenario.ts';

const plain = {color: false, width: 120, quiet: false, verbose: true, failOn: 'error' as const};

describe('API objects', () => {
  test.each(['services', 'endpointSlices'] as const)('%s that were not read are not taken for deleted objects', async kind => {
    const given = await scenario();
    given.api(() => ({[kind]: null}));
    expect(given.newFindings().map(({code, node}) => ({code, node}))).toEqual(
      ['node-a', 'node-b', 'node-c'].map(node => ({code: 'ST901', node})),
    );
    expect(given.findings().filter(({severity}) => severity === 'error')).toEqual([]);
  });

  test('an empty list counts as read: what the nodes still serve is stale', async () => {
    const given = await scenario();
    given.api(() => ({services: []}));
    expect(given.newFindings().map(({code}) => code)).toContain('ST205');
  });

  test('without status, spec or labels are read as far as they go', async () => {
    const given = await scenario();
    given.leaveOutNodes();
    given.addService({metadata: {name: 'bare', namespace: 'shop'}}, {metadata: {name: 'bare-too'}, spec: {}});
    given.addSlice({metadata: {name: 'bare', namespace: 'shop'}}, {metadata: {name: 'x', labels: {'kubernetes.io/service-name': 'web'}}});
    given.api(({nodes}) => ({nodes: [...(nodes ?? []), {metadata: {name: 'node-d'}}], pods: [{metadata: {name: 'p'}}]}));
    expect(
      given
        .newFindings()
        .filter(needsAction)
        .map(({code}) => code),
    ).not.toContain('ST201');
  });

  test.each<[string, ServiceSpec]>([
    ['a cluster IP', {clusterIP: 'ten', clusterIPs: ['ten']}],
    ['an external IP', {externalIPs: ['', '1.2.3', '::g', '198.51.100.10/32', '198.51.100.10']}],
    ['a source range', {loadBalancerSourceRanges: ['anywhere', '1.2.3.4/33', '/', '10.0.0.0/-1']}],
  ])('with an invalid %s do not affect other checks', async (_, wrong) => {
    const given = await scenario();
    given.service('shop/external-ips', object => ({...object, spec: {...object.spec, ...wrong}}));
    given.rules('node-b').delete('-A KUBE-SVC-', '"shop/web:http -> 10.244.11.5:8080"');
    expect(given.newFindings().map(({code, subject, endpoint}) => ({code, subject, endpoint}))).toContainEqual({
      code: 'ST202',
      subject: 'shop/web:http',
      endpoint: '10.244.11.5:8080',
    });
  });

  test('an endpoint with an invalid address is left out', async () => {
    const given = await scenario();
    given.slices('shop/web', slice => ({...slice, endpoints: [...(slice.endpoints ?? []), {addresses: ['example.com']}, {addresses: []}]}));
    expect(given.newFindings()).toEqual([]);
  });
});

describe('a dump', () => {
  test('with ten thousand third-party chains is evaluated and has no finding', async () => {
    const given = await scenario();
    const chains = Array.from({length: 10_000}, (_, index) => `OTHER-${index}`);
    const dump = given.rules('node-b');
    dump.insertAfter([':KUBE-SVC-67NZLRHBNDSAWJRO '], ...chains.map(name => `:${name} - [0:0]`));
    dump.insertBefore(['-A KUBE-MARK-MASQ'], ...chains.map(name => `-A ${name} -p tcp -m tcp --dport 9 -j DROP`));
    expect(given.newFindings()).toEqual([]);
  });

  test('with chains that call each other in a loop, which no kernel allows, is evaluated completely', async () => {
    const given = await scenario();
    const dump = given.rules('node-b');
    for (const name of ['ROUND', 'AND-ROUND']) dump.declare('nat', name);
    dump.append('nat', '-A ROUND -j AND-ROUND');
    dump.append('nat', '-A AND-ROUND -j ROUND');
    dump.insertBefore(['-A PREROUTING', '-j KUBE-SERVICES'], '-A PREROUTING -j ROUND');
    expect(given.newFindings().filter(({severity}) => severity === 'error')).toEqual([]);
  });

  test('with a line of a megabyte is evaluated, and the line is a rule like any other', async () => {
    const given = await scenario();
    given
      .rules('node-b')
      .insertBefore(
        ['"shop/web:http -> 10.244.11.4:8080"'],
        `-A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "${'x'.repeat(1 << 20)}" -j LOG`,
      );
    expect(given.newFindings().map(({code, severity}) => [code, severity])).toEqual([['ST216', 'info']]);
  });

  test('with a comment that is not UTF-8 is evaluated by its rules', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const text = snapshot.nodes[0]?.read('iptables-save')?.toString('latin1').replaceAll('cluster IP"', 'cluster \xff\xfe\xc3("') ?? '';
    expect(findingsOf(withDump(snapshot, Buffer.from(text, 'latin1'))).filter(({node}) => node !== undefined)).toEqual([]);
  });

  test('with output of other programs among the rules names it and loses no rule', async () => {
    const given = await scenario();
    given.rules('node-b').insertBefore(['-A KUBE-MARK-MASQ'], 'Defaulted container "kube-proxy" out of: kube-proxy, init', '');
    expect(given.newFindings().map(({code, message}) => [code, message.includes('no rule (line')])).toEqual([['ST506', true]]);
  });

  test('that is truncated anywhere counts as unread, and no rule after its end is reported as missing', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const whole = snapshot.nodes[0]?.read('iptables-save') ?? Buffer.from('');
    const lengths = Array.from({length: 60}, (_, index) => Math.floor(((index + 0.37) * whole.length) / 60));
    const wrong = lengths.flatMap(length => {
      const {nodes, findings} = diagnose(withDump(snapshot, whole.subarray(0, length)), {toolVersion: '0.0.0'});
      const codes = findings.filter(({node}) => node !== undefined).map(({code}) => code);
      const status = nodes.find(({name}) => name === 'node-a')?.status;
      return status === 'unread' && codes.every(code => code === 'ST506' || code === 'ST902')
        ? []
        : [`${length}: ${status} ${codes.join()}`];
    });
    expect(wrong).toEqual([]);
  });

  test('that is truncated still shows the faults before its end', async () => {
    const snapshot = await snapshotOf('faults/missing-endpoint');
    const whole = snapshot.nodes[0]?.read('iptables-save') ?? Buffer.from('');
    const found = findingsOf(withDump(snapshot, whole.subarray(0, whole.length - 100)));
    expect(found.filter(({node}) => node !== undefined).map(({code}) => code)).toEqual(['ST202', 'ST506']);
  });
});

describe('the other files of a node', () => {
  const contents: readonly (readonly [string, string])[] = [
    ['nothing', ''],
    ['null', 'null'],
    ['a number', '5'],
    ['an empty object', '{}'],
    ['a list of nothing', '[null]'],
    ['half an object', '{"kubeproxy.config.k8s.io": {"mode": '],
    ['brackets without end', '['.repeat(100_000)],
    ['bytes', Buffer.from(Array.from({length: 2000}, (_, index) => (index * 7919 + 13) % 256)).toString('latin1')],
  ];
  const files = [
    'addresses.json',
    'configz.json',
    'kube-proxy-config.yaml',
    'healthz.json',
    'metrics',
    'conntrack',
    'sysctls',
    'ipset-save',
  ];
  const more = ['nft.json', 'ipvsadm-save', 'kube-ipvs0.json', 'iptables-version'];

  test.each(contents)('may contain %s: the rules are evaluated anyway', async (_, content) => {
    const given = await scenario();
    const wrong: string[] = [];
    for (const file of [...files, ...more]) {
      given.file('node-b', file, content);
      const errors = given.newFindings({nodes: name => name === 'node-b'}).filter(({severity}) => severity === 'error');
      wrong.push(...errors.map(({code, message}) => `${file}: ${code} ${message}`));
      given.restore('node-b', file);
    }
    expect(wrong).toEqual([]);
  });
});

describe('names and comments that attack the terminal', () => {
  const evil = '\u001b]0;owned\u0007\u001b[2J\u202e\u009b31m\r\n\u2028';

  test('are escaped in every format, and JSON stays JSON', async () => {
    const {report} = await hostile();
    for (const [name, render] of [...Object.entries(renderers), ...Object.entries(traceRenderers)]) {
      const text = render(report, plain);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
      expect(text.match(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2028]/g), name).toBeNull();
      expect(text, name).toContain('owned');
    }
    expect(JSON.parse(renderers.json(report, plain)).findings.length).toBe(report.findings.length);
  });

  test('are the original names after JSON is parsed', async () => {
    const {report, name} = await hostile();
    const {findings} = JSON.parse(renderers.json(report, plain));
    expect(findings.map(({service}: {service?: {name: string}}) => service?.name)).toContain(name);
  });

  /** A Service, an endpoint's pod and a rule that bear the attack in their names. */
  async function hostile() {
    const given = await scenario();
    const name = `web${evil}`;
    given.service('shop/web', (object): ServiceObject => ({...object, metadata: {...object.metadata, name}}));
    given.slices('shop/web', slice => ({
      ...slice,
      metadata: {...slice.metadata, labels: {'kubernetes.io/service-name': name}},
      endpoints: (slice.endpoints ?? []).map(one => ({...one, targetRef: {kind: 'Pod', namespace: 'shop', name: `pod${evil}`}})),
    }));
    given.rules('node-b').insertBefore(['-A KUBE-MARK-MASQ'], `-A KUBE-SERVICES -m comment --comment "owned\u001b[31m\u202e" -j RETURN`);
    return {report: diagnose(given.snapshot(), {toolVersion: '0.0.0', trace: true}), name};
  }
});

function withDump(snapshot: Snapshot, content: Buffer): Snapshot {
  return {
    ...snapshot,
    nodes: snapshot.nodes.map(node => (node.name === 'node-a' ? withFiles(node, {'iptables-save': content}) : node)),
  };
}
