/** What kube-proxy changed in patch releases, on both sides of each edge. The older rules are written by hand. */
import {describe, expect, test} from 'vitest';
import {nftScenario} from '../../nft-scenario.ts';
import type {Scenario} from '../../scenario.ts';

type Change = (ruleset: string) => string;

/** The filter chains of 1.30.0 to 1.33.5. */
const earlier = `	chain filter-prerouting {
		type filter hook prerouting priority dstnat - 10; policy accept;
		ct state new jump firewall-check
	}

	chain filter-input {
		type filter hook input priority -110; policy accept;
		ct state new jump nodeport-endpoints-check
		ct state new jump service-endpoints-check
	}

	chain filter-forward {
		type filter hook forward priority -110; policy accept;
		ct state new jump service-endpoints-check
		ct state new jump cluster-ips-check
	}

	chain filter-output {
		type filter hook output priority -110; policy accept;
		ct state new jump service-endpoints-check
		ct state new jump firewall-check
	}

	chain filter-output-post-dnat {
		type filter hook output priority -90; policy accept;
		ct state new jump cluster-ips-check
	}

`;

const filterChain = /\tchain filter-[\w-]+ \{\n[^}]*\t\}\n\n/g;

const asBefore: Change = ruleset => {
  const without = ruleset.replaceAll(filterChain, '');
  expect(without).not.toContain('chain filter-');
  return without.replaceAll('\tchain nat-prerouting {', `${earlier}\tchain nat-prerouting {`);
};
const asAfter: Change = ruleset => ruleset;

/** After a downgrade from 1.33.6: its two chains stay behind, with their rules. */
const afterDowngrade: Change = ruleset => {
  const left = new Set([...ruleset.matchAll(filterChain)].map(([text]) => text).filter(text => text.includes('-pre-dnat {')));
  expect(left.size).toBe(2);
  return asBefore(ruleset).replaceAll('\tchain filter-prerouting {', `${[...left].join('')}\tchain filter-prerouting {`);
};

/** After an upgrade to 1.33.6: two chains of before stay behind. */
const afterUpgrade: Change = ruleset => {
  const left = [...earlier.matchAll(filterChain)].map(([text]) => text).filter(text => /filter-prerouting|-post-dnat/.test(text));
  expect(left).toHaveLength(2);
  return ruleset.replaceAll('\tchain filter-prerouting-pre-dnat {', `${left.join('')}\tchain filter-prerouting-pre-dnat {`);
};

async function node(version: string, change: Change): Promise<Scenario> {
  const whole = await nftScenario(change, '1.33');
  for (const other of ['node-b', 'node-c']) whole.leaveOut(other);
  whole.file('node-a', 'kube-proxy-version', `${version}\n`);
  return whole;
}

/** Findings of rules, in short. */
async function found(version: string, change: Change): Promise<readonly string[]> {
  return codes(await node(version, change));
}

function codes(whole: Scenario): readonly string[] {
  return whole.summaries().flatMap(({code, message}) => (/^ST[23]/.test(code) ? [`${code} ${message}`] : []));
}

describe('the filter chains around DNAT', () => {
  test.each([
    ['v1.33.2', asBefore],
    ['v1.33.5', asBefore],
    ['v1.33.5+0fb4726', asBefore],
    ['v1.33.5', afterDowngrade],
    ['v1.33.6', asAfter],
    ['v1.33.6', afterUpgrade],
    ['v1.33.13-gke.100', asAfter],
  ])('those of kube-proxy %s are in sync', async (version, change) => {
    expect(await found(version, change)).toEqual([]);
  });

  test.each([
    ['v1.33.5', asAfter],
    ['v1.33.5', afterUpgrade],
    ['v1.33.6', asBefore],
    ['v1.33.6', afterDowngrade],
  ])('those of the other side are reported on kube-proxy %s', async (version, change) => {
    const all = await found(version, change);
    expect(all).toContainEqual(expect.stringContaining('filter-output'));
    expect(all).toContainEqual(expect.stringMatching(/^ST301/));
  });

  test.each([
    ['v1.33', asBefore],
    ['v1.33', asAfter],
    ['v1.33', afterUpgrade],
    ['v1.33', afterDowngrade],
    ['v1.33.6-rc.0', asBefore],
    ['v1.33.6-rc.0', asAfter],
  ])('of kube-proxy %s, whose patch is not known, either are in sync', async (version, change) => {
    expect(await found(version, change)).toEqual([]);
  });

  test.each([
    ['before', asBefore],
    ['after', asAfter],
  ] as const)('a version of the kubelet leaves it to the rules: %s', async (_, change) => {
    const whole = await node('', change);
    whole.file('node-a', 'kube-proxy-version', null);
    whole.api(() => ({pods: null}));
    whole.nodeObject('node-a', object => ({
      ...object,
      status: {...object.status, nodeInfo: {...object.status?.nodeInfo, kubeletVersion: 'v1.33.2', kubeProxyVersion: ''}},
    }));
    expect(codes(whole)).toEqual([]);
  });

  test.each([
    ['v1.33', asBefore],
    ['v1.33.5', asBefore],
    ['v1.33', asAfter],
  ])('a chain that is missing is reported on kube-proxy %s', async (version, change) => {
    for (const name of ['filter-input', 'filter-output', 'filter-forward']) {
      const without: Change = ruleset => change(ruleset).replaceAll(new RegExp(`\\tchain ${name} \\{\\n[^}]*\\t\\}\\n\\n`, 'g'), '');
      expect(await found(version, without), name).toContainEqual(expect.stringContaining(`the chain ${name} is missing`));
    }
  });
});
