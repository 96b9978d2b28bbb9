import {describe, expect, test} from 'vitest';
import {scenario} from '../scenario.ts';

const flow =
  'udp      17 25 src=10.244.13.7 dst=10.96.0.10 sport=40000 dport=53 src=10.244.11.77 dst=10.244.13.7 sport=53 dport=40000 use=1\n';

/** The remedy of the first finding with this code, on node-b of kube-proxy of this version. */
async function remedyOf(code: string, version: string, file: string, content: string | null): Promise<string> {
  const given = await scenario();
  if (content === null) given.rules('node-b', file).delete('-j KUBE-SEP-', '"shop/web:http -> 10.244.11.4:8080"');
  else given.file('node-b', file, content);
  given.file('node-b', 'kube-proxy-version', `${version}\n`);
  return given.findings({nodes: name => name === 'node-b'}).find(found => found.code === code)?.remedy ?? '';
}

describe('stale flows of UDP', () => {
  const remedy = (version: string) => remedyOf('ST508', version, 'conntrack', flow);

  test.each([
    ['v1.31.1', '1.31.2', '127780'],
    ['v1.31.1-gke.100', '1.31.2', '127780'],
    ['v1.32.2', '1.32.3', '130034'],
    ['v1.28.13', '1.28.14', '126532'],
  ])('of kube-proxy %s: the remedy names %s', async (version, mended, pull) => {
    expect(await remedy(version)).toContain(`upgrade it to ${mended} or newer (kubernetes#${pull}).`);
  });

  test.each(['v1.31.2', 'v1.32.3', 'v1.36.2'])('of kube-proxy %s, which has every patch, need no upgrade', async version => {
    const text = await remedy(version);
    expect(text).toContain('conntrack -D');
    expect(text).not.toContain('upgrade');
  });
});

test.each([
  ['v1.36.2', 'upgrade it to 1.37.0 or newer (kubernetes#139629)'],
  ['v1.31.2', ''],
  ['v1.37.0', ''],
])(
  'of a Service without endpoints, kube-proxy %s does not remove stale flows, and no finding calls that right',
  async (version, upgrade) => {
    const given = await scenario();
    given.slices('infra/dns', slice => ({...slice, endpoints: []}));
    given.file('node-b', 'conntrack', flow);
    given.file('node-b', 'kube-proxy-version', `${version}\n`);
    const found = given.findings({nodes: name => name === 'node-b'});
    const remedy = (wanted: string) => found.find(({code, service}) => code === wanted && service?.name === 'dns')?.remedy ?? '';
    expect(remedy('ST508')).toContain(upgrade);
    if (upgrade === '') expect(remedy('ST508')).not.toContain('upgrade');
    expect(remedy('ST101')).toContain('kube-proxy refuses new connections by design');
  },
);

describe('a missing endpoint', () => {
  const remedy = (version: string) => remedyOf('ST202', version, 'iptables-save', null);

  test.each([
    ['v1.28.6', '1.28.7'],
    ['v1.27', '1.27.11'],
  ])('of kube-proxy %s: the remedy names %s', async (version, mended) => {
    expect(await remedy(version)).toContain(`upgrade it to ${mended} or newer (kubernetes#122204).`);
  });

  test.each(['v1.26.9', 'v1.28.7', 'v1.36.2'])('of kube-proxy %s, which has no such bug, needs no upgrade', async version => {
    const text = await remedy(version);
    expect(text).not.toBe('');
    expect(text).not.toContain('upgrade');
  });
});
