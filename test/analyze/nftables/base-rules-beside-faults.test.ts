/** The effect of a missing base rule is tried with one Service port of each shape. It is as severe if this one has a fault of its own. */
import {expect, test} from 'vitest';
import type {Finding} from '../../../src/model/finding.ts';
import {nodeDump} from '../../cluster.ts';
import {expectedTable} from '../../nft-expectation.ts';
import {nftText} from '../../rendered-nft.ts';
import {findingsOf} from '../../scenario.ts';
import {names, twoServices} from '../two-services.ts';

interface TestedRuleset {
  readonly text: string;
  /** Of the node. */
  readonly findings: (text: string) => readonly Finding[];
  /** With their severities. */
  readonly codes: (text: string) => readonly string[];
}

function ruleset(minor = 36, detection: Readonly<Record<string, string>> = {clusterCIDR: '10.244.0.0/16'}): TestedRuleset {
  const api = twoServices('ClusterIP');
  const config = {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'nftables',
    ...detection,
  };
  const files = {'kube-proxy-version': `v1.${minor}.0\n`, 'kube-proxy-config.yaml': JSON.stringify(config)};
  const node = nodeDump('node-a', files);
  const nodeWith = (text: string) => nodeDump('node-a', {...files, 'nft.txt': text, 'iptables-save': ''});
  const findings = (text: string): readonly Finding[] =>
    findingsOf({origin: 'two Services', api, problems: [], nodes: [nodeWith(text)]}).filter(finding => finding.node !== undefined);
  return {
    text: nftText(expectedTable({api, node})),
    findings,
    codes: text => findings(text).map(({code, severity}) => `${severity} ${code}`),
  };
}

test.each([
  ['nat-output', /(chain nat-output \{\n.*\n)\t\tjump services\n/, 'error ST301'],
  ['nat-prerouting', /(chain nat-prerouting \{\n.*\n)\t\tjump services\n/, 'error ST301'],
  ['masquerading', /(chain masquerading \{\n)\t\tmeta mark .*\n/, 'error ST302'],
])('a rule of %s', (_, rule, found) => {
  const {text, codes} = ruleset();
  expect(codes(text).filter(code => !code.startsWith('info'))).toEqual([]);
  const without = text.replace(rule, '$1');
  expect(without).not.toBe(text);
  expect(codes(without)).toContain(found);
  for (const index of names.keys()) {
    const broken = without.replace(new RegExp(`10\\.96\\.0\\.${10 + index} \\. tcp \\. 80 [^,}]*: goto [^,}]*(?:, | )`), '');
    expect(broken).not.toBe(without);
    expect(codes(broken), names[index] ?? '').toContain(found);
  }
});

test('a rule that drops the connections of endpoints to themselves is reported for each Service', () => {
  // Without clusterCIDR nothing else is marked.
  const {text, findings} = ruleset(34, {});
  const dropping = text.replace(/(chain masquerading \{\n)/, '$1\t\tmeta mark & 0x00004000 == 0x00004000 drop\n');
  expect(dropping).not.toBe(text);
  const messages = findings(dropping).map(({message}) => message);
  for (const name of names)
    expect(messages.filter(message => message.startsWith(`${name}:http: packets from the endpoint itself`))).toHaveLength(1);
});
