import {expect, test} from 'vitest';
import {containing, type FindingSummary, scenario} from '../scenario.ts';

const config = (mode: string) => `kind: KubeProxyConfiguration\nmode: "${mode}"\nclusterCIDR: 10.244.0.0/16\n`;

test('a mode that is not set on a kernel without the next default is reported', async () => {
  expect(await saidWith({kernelVersion: '5.4.0-150-generic', mode: ''})).toEqual([
    {
      ...{code: 'ST512', severity: 'info', node: 'node-a'},
      message: containing('the proxy mode is not set (kube-proxy-config.yaml)', '5.4.0-150-generic'),
    },
  ]);
});

test.each([
  ['a kernel that can run nftables mode', {kernelVersion: '5.13.0', mode: ''}],
  ['a mode that is set', {kernelVersion: '5.4.0-150-generic', mode: 'iptables'}],
  ['an unknown kernel', {kernelVersion: '', mode: ''}],
])('%s stays silent', async (_, setup) => {
  expect(await saidWith(setup)).toEqual([]);
});

test('a default that only /configz shows stays silent, because it may have been set', async () => {
  const given = await scenario();
  given.nodeObject('node-a', node => ({...node, status: {...node.status, nodeInfo: {kernelVersion: '5.4.0'}}}));
  given.file('node-a', 'kube-proxy-config.yaml', null);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST512');
});

async function saidWith({
  kernelVersion,
  mode,
}: {
  readonly kernelVersion: string;
  readonly mode: string;
}): Promise<readonly FindingSummary[]> {
  const given = await scenario();
  given.nodeObject('node-a', node => ({...node, status: {...node.status, nodeInfo: {...node.status?.nodeInfo, kernelVersion}}}));
  given.file('node-a', 'kube-proxy-config.yaml', config(mode));
  return given.summaries().filter(({code}) => code === 'ST512');
}
