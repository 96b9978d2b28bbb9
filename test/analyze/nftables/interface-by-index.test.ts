import {expect, test} from 'vitest';
import {snapshotOf, withFiles} from '../../fixtures.ts';
import {withPrintedRules} from '../../e2e/kernel/printed-rules.ts';
import {findingsOf} from '../../scenario.ts';

const config = ['mode: nftables', 'detectLocalMode: BridgeInterface', 'detectLocal:', '  bridgeInterface: cni0'];

/** Findings of a node of kube-proxy 1.33 whose pods are behind a bridge, with the rules as it changes them. */
async function found(change: (rules: string) => string): Promise<readonly string[]> {
  const snapshot = await snapshotOf('nftables/1.33');
  const [first] = snapshot.nodes;
  if (first === undefined) throw new Error('no node');
  const text = ['apiVersion: kubeproxy.config.k8s.io/v1alpha1', 'kind: KubeProxyConfiguration', ...config, ''].join('\n');
  const configured = withFiles(first, {
    'kube-proxy-config.yaml': text,
    'configz.json': null,
    'proxy-mode': 'nftables',
    'kube-proxy-version': 'v1.33.3\n',
  });
  const printed = withPrintedRules({...snapshot, nodes: [configured]}, first.name, {}).nodes[0];
  const rules = change(printed?.read('nft.json')?.toString() ?? '');
  const node = withFiles(configured, {'nft.json': rules, 'nft.txt': null});
  return findingsOf({...snapshot, nodes: [node], chosenNodes: true})
    .filter(({code}) => /^ST[23]/.test(code))
    .map(({code, message}) => `${code} ${message}`);
}

test('kube-proxy 1.33.3 matches a bridge by its index, and 1.33.6 by its name: both are healthy', async () => {
  expect(await found(rules => rules)).toEqual([]);
  const byName = await found(rules => {
    expect(rules).toContain('iif != "cni0"');
    return rules.replaceAll(/\biif (!= )?"/g, 'iifname $1"');
  });
  expect(byName).toEqual([]);
});

test('an index whose interface is gone is found', async () => {
  expect((await found(rules => rules.replaceAll(/\biif != "cni0"/g, 'iif != 7'))).length).toBeGreaterThan(0);
});
