import {expect, test} from 'vitest';
import {nftScenario} from '../nft-scenario.ts';
import {containing} from '../scenario.ts';

const overrides = {
  ...{version: 'v1.37.0', featureGates: {KubeProxyNFTablesLocalhostNodePorts: true}},
  nodePortAddresses: ['primary', 'localhost'],
};

test('a table that still rejects TCP on loopback addresses, of a kube-proxy that should listen there, is reported', async () => {
  const given = await nftScenario(withRejects);
  given.file(
    'node-a',
    'configz.json',
    JSON.stringify({
      'kubeproxy.config.k8s.io': {
        ...{mode: 'nftables', clusterCIDR: '10.244.0.0/16', nodePortAddresses: overrides.nodePortAddresses},
        featureGates: overrides.featureGates,
      },
    }),
  );
  const found = given.summaries({overrides: {version: 'v1.37.0'}}).filter(({code}) => code === 'ST511');
  expect(found).toEqual([
    {
      ...{code: 'ST511', severity: 'error', node: 'node-a', family: 'IPv4'},
      message: containing('kube-proxy cannot write any change of IPv4', 'still refuses 1 TCP node ports'),
    },
  ]);
});

test('settings that the running kube-proxy may not have read yet are a hazard of its next start', async () => {
  const given = await nftScenario(withRejects);
  const found = given.summaries({overrides}).filter(({code, node}) => code === 'ST511' && node === 'node-a');
  expect(found.map(({severity}) => severity)).toEqual(['warning']);
});

test('a table that rejects TCP because kube-proxy does not listen stays silent', async () => {
  const given = await nftScenario(withRejects);
  const found = given.summaries({overrides: {...overrides, nodePortAddresses: ['primary']}});
  expect(found.map(({code}) => code)).not.toContain('ST511');
});

function withRejects(text: string): string {
  const map = [
    '\tmap localhost-nodeport-reject-ports {',
    '\t\ttype inet_proto . inet_service : verdict',
    '\t\telements = { tcp . 30080 : goto localhost-nodeport-reject-tcp }',
    '\t}\n\n',
  ].join('\n');
  const chain = '\tchain localhost-nodeport-reject-tcp {\n\t\treject\n\t}\n\n';
  return text
    .replace('\tmap no-endpoint-services {', `${map}\tmap no-endpoint-services {`)
    .replace('\tchain filter-input {', `${chain}\tchain filter-input {`);
}
