import {describe, expect, test} from 'vitest';
import {containing, type Scenario, scenario} from '../scenario.ts';
import {promiseFindings} from './promise.ts';

test('a node whose rules use no endpoint as local is one error, not one for each Service', async () => {
  const given = await renamed();
  expect(given.newFindings()).toEqual([
    {
      ...{code: 'ST507', severity: 'error', node: 'node-a', family: 'IPv4'},
      message: containing('none of the endpoints that the API places on node-a is treated as local', 'runs under another node name'),
    },
  ]);
});

test('a node that takes the endpoints of another node for its own is one error that names it', async () => {
  const given = await renamed('node-b');
  const found = given.newFindings();
  expect(found.map(({code, node}) => `${code} ${node}`)).toEqual(['ST507 node-a']);
  expect(found[0]?.message).toMatch(/places on node-b are treated as local, and not those on node-a .* its kube-proxy runs as node-b$/);
});

test('if kube-proxy reports the node name that it uses, that name counts and the rules are correct', async () => {
  const given = await renamed();
  given.file('node-a', 'configz.json', null);
  given.file('node-a', 'kube-proxy-config.yaml', 'mode: iptables\nhostnameOverride: elsewhere\nclusterCIDR: 10.244.0.0/16\n');
  expect(given.newFindings().map(({code}) => code)).not.toContain('ST202');
});

test('a node without endpoints has none to use as local, and stays silent', async () => {
  const given = await scenario();
  expect(given.rules('node-c').lines('-A KUBE-SVL-')).toEqual([]);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST507');
});

test('one Service without its local endpoint is a fault of that Service', async () => {
  const given = await scenario();
  given.rules('node-a').deleteAll('-A KUBE-SVL-MXUIPMOZBK5EOUF7 ');
  expect(given.newFindings().map(({code}) => code)).not.toContain('ST507');
});

describe.each(['iptables', 'nftables', 'ipvs'] as const)('a hostnameOverride that was read and is no Node, in %s mode', mode => {
  const config = {clusterCIDR: '10.244.0.0/16', hostnameOverride: 'elsewhere'};

  test('is an error where a Local policy then serves nobody', () => {
    const found = promiseFindings({mode, config, spec: {externalTrafficPolicy: 'Local'}});
    expect(found.map(({code, severity}) => `${code} ${severity}`)).toContain('ST507 error');
    expect(found.map(({message}) => message).join()).toMatch(/runs as node elsewhere .*which the cluster does not have.*external clients/s);
  });

  test('stays silent if it is the name of the Node', () => {
    const right = {...config, hostnameOverride: 'node-a'};
    expect(promiseFindings({mode, config: right, spec: {externalTrafficPolicy: 'Local'}}).map(({code}) => code)).not.toContain('ST507');
  });
});

test('it is a warning where no Service needs the name', () => {
  const found = promiseFindings({config: {clusterCIDR: '10.244.0.0/16', hostnameOverride: 'elsewhere'}});
  expect(found.map(({code, severity}) => `${code} ${severity}`)).toEqual(['ST507 warning']);
});

/** The rules of another node, by default of one where no endpoint is local, stand on node-a; hints are left out, since they go by the zone. */
async function renamed(other = 'node-c'): Promise<Scenario> {
  const given = await scenario();
  for (const name of ['shop/zonal', 'shop/nodal'])
    given.slices(name, slice => ({...slice, endpoints: (slice.endpoints ?? []).map(({hints: _, ...rest}) => rest)}));
  for (const name of ['shop/zonal', 'shop/nodal']) given.deleteService(name);
  for (const node of ['node-a', 'node-b', 'node-c']) {
    const dump = given.rules(node);
    for (const name of ['zonal', 'nodal']) dump.deleteAll(`"shop/${name}:http`);
  }
  given.rules('node-a').become(given.rules(other));
  return given;
}
