import {expect, test} from 'vitest';
import {sourcesFor} from '../../../src/analyze/outcomes/sources.ts';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import {expectRuleset} from '../../../src/expect/iptables/expect-ruleset.ts';
import {nodeSetup} from '../../../src/preview/sides.ts';
import {nodeDump} from '../../cluster.ts';
import {unusualServices} from '../../unusual-services.ts';

const api = unusualServices();
const view = new ClusterView(api);
const {config, facts} = nodeSetup({node: nodeDump('node-a'), api, view, overrides: {version: 'v1.33.0', clusterCIDRs: ['10.244.0.0/16']}});
const {context} = expectRuleset({view, config, facts, family: 'IPv4', ruleset: null});

test.each([
  ['without ranges', []],
  ['with a range', ['203.0.113.0/24']],
  ['with a range of all addresses, which up to 1.33 is one like any other', ['0.0.0.0/0']],
  ['with ranges that hold every address', ['0.0.0.0/1', '128.0.0.0/1']],
])('a client outside the cluster is a source %s', (_, sourceRanges) => {
  const outside = sourcesFor({sourceRanges, loadBalancerVIPs: ['203.0.113.170']}, context, new Set()).filter(
    ({kind}) => kind === 'outside',
  );
  expect(outside.map(({address}) => address)).toEqual(['198.18.77.7']);
});
