import {describe, expect, test} from 'vitest';
import type {Snapshot} from '../../../src/model/snapshot.ts';
import {diagnosed} from '../../diagnosed.ts';
import {needsAction, Scenario, summaryOf, containing} from '../../scenario.ts';
import {oldNodes} from '../../old-nodes.ts';

/** Every version with its own rules before 1.24, and the version that is inferred from its rules alone. */
const eras = [
  ['1.5', '1.5'],
  ['1.11', '1.13'],
  ['1.13', '1.13'],
  ['1.14', '1.14'],
  ['1.16', '1.17'],
  ['1.17', '1.17'],
  ['1.18', '1.18'],
  ['1.20', '1.20'],
  ['1.21', '1.21'],
  ['1.22', '1.22'],
  ['1.23', '1.23'],
] as const;
const versionFile = (version: string) => ({'kube-proxy-version': `Kubernetes v${version}.9\n`});

const loud = (snapshot: Snapshot) =>
  diagnosed(snapshot)
    .findings.filter(needsAction)
    .filter(({code}) => code > 'ST2')
    .map(summaryOf);

describe('a node of an old version', () => {
  test.each(eras)('is in sync, and the version is inferred from its dump alone: %s', async (version, found) => {
    const snapshot = await oldNodes(version);
    expect(loud(snapshot)).toEqual([]);
    expect(diagnosed(snapshot).nodes.map(({status, kubeProxyVersion}) => [status, kubeProxyVersion])).toEqual(
      Array.from({length: 3}, () => ['checked', `about v${found}`]),
    );
  });

  test.each([...eras.map(([version]) => version), '1.12', '1.15', '1.19'])('is in sync when the version is given: %s', async version => {
    const snapshot = await oldNodes(version, versionFile(version));
    expect(loud(snapshot).filter(isOfRules)).toEqual([]);
    const {nodes} = diagnosed(snapshot);
    expect(nodes.map(({status, kubeProxyVersion}) => [status, kubeProxyVersion])).toEqual(
      Array.from({length: 3}, () => ['checked', `v${version}.9`]),
    );
  });

  test('up to 1.20 has rules in one family, and none are missing in the other', async () => {
    for (const [version, families] of [
      ['1.20', ['IPv4']],
      ['1.21', ['IPv4', 'IPv6']],
    ] as const) {
      const {nodes} = diagnosed(await oldNodes(version, versionFile(version)));
      for (const node of nodes) expect(node.families).toEqual(families);
    }
  });

  test.each(['1.18', '1.14'])('that is broken is reported (%s)', async version => {
    const old = new Scenario(await oldNodes(version));
    const rules = old.rules('node-a');
    const entry = rules.delete('KUBE-SERVICES', '"shop/web:http cluster IP"', '-j KUBE-SVC');
    expect(old.newFindings({skip: new Set(['ST215'])}).filter(needsAction)).toEqual([
      expect.objectContaining({code: 'ST201', node: 'node-a', subject: 'shop/web:http', expected: [entry]}),
    ]);
  });
});

/** Not of what the version itself does wrong (ST7xx). */
function isOfRules({code}: {readonly code: string}): boolean {
  return !code.startsWith('ST7');
}

describe('endpoints that are not ready have chains up to 1.22.3', () => {
  const told = (version: string) => ({'kube-proxy-version': `Kubernetes v${version}\n`});

  test.each([
    ['1.22.3', '1.22.3'],
    ['1.22.4', '1.22.4'],
    ['1.22.3', '1.22'],
    ['1.22.4', '1.22'],
    ['1.22.3', '1.22.4-rc.0'],
    ['1.22.3', '1.22.0-rc.0'],
    ['1.22.4', '1.22.4-rc.0'],
  ])('the rules of %s are in sync with version %s', async (written, version) => {
    expect(loud(await oldNodes(written, told(version))).filter(isOfRules)).toEqual([]);
  });

  test('the bug is named, with the patch that mends it, on a node that has it', async () => {
    const found = diagnosed(await oldNodes('1.22.3', told('1.22.3'))).findings.filter(({code}) => code === 'ST703');
    expect(found.map(({message}) => message)).toContainEqual(
      expect.stringContaining('kube-proxy v1.22.3 has a bug in iptables mode that v1.22.4 does not have'),
    );
    const mended = diagnosed(await oldNodes('1.22.4', told('1.22.4'))).findings.filter(({code}) => code === 'ST703');
    expect(mended.map(({message}) => message)).not.toContainEqual(expect.stringContaining('v1.22.4 does not have'));
  });

  test.each([
    ['1.22.3', '1.22.4'],
    ['1.22.4', '1.22.3'],
  ])('the rules of %s are reported on version %s', async (written, version) => {
    const found = loud(await oldNodes(written, told(version)));
    expect(found).toContainEqual(expect.objectContaining({node: 'node-a', subject: 'shop/sleepy:http'}));
  });
});

describe('a kube-proxy whose rules are unknown', () => {
  test('is checked against the rules of a neighboring version if they match', async () => {
    const {nodes} = diagnosed(await oldNodes('1.11', versionFile('1.8')));
    expect(nodes.map(({status}) => status)).toEqual(['checked', 'checked', 'checked']);
    expect(nodes[0]?.settings['version']?.source).toContain('evaluated with the rules of 1.11, which fit best');
  });

  test('is not checked if none matches, and the message names the flag that helps', async () => {
    const old = new Scenario(await oldNodes('1.11', versionFile('1.8')));
    old.rules('node-a').delete('KUBE-SERVICES', '"shop/web:http cluster IP"', '-j KUBE-SVC');
    const found = old.newFindings();
    expect(found).toEqual([
      expect.objectContaining({
        code: 'ST901',
        node: 'node-a',
        message: containing('1.8.9', 'not known', '1.11 and 1.5', '--kube-proxy-version'),
      }),
    ]);
    const inferred = old.newFindings({overrides: {version: 'v1.11.0'}, only: new Set(['ST201'])});
    expect(inferred).toEqual([expect.objectContaining({code: 'ST201', subject: 'shop/web:http'})]);
  });

  test('is not checked if it is older than all known versions', async () => {
    const snapshot = await oldNodes('1.5', versionFile('1.4'));
    expect(loud(snapshot).map(({code, message}) => [code, message])).toEqual(
      ['node-a', 'node-b', 'node-c'].map(node => ['ST901', containing(node, 'v1.4.9 is older than 1.5')]),
    );
  });
});

describe('objects that kube-proxy reads and the bundle lacks', () => {
  test('are replaced by objects of the other kind, which is reported', async () => {
    const old = new Scenario(await oldNodes('1.18', versionFile('1.18')));
    old.api(() => ({endpoints: null}));
    const summaryOf = old.newFindings({only: new Set(['ST901'])});
    expect(summaryOf.map(({node, message}) => [node, message])).toEqual(
      ['node-a', 'node-b', 'node-c'].map(node => [node, containing('1.18.9 uses Endpoints', 'checked by EndpointSlices')]),
    );
  });
});
