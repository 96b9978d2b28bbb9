import {expect, test} from 'vitest';
import {scenario} from '../scenario.ts';

interface Setup {
  readonly version: string;
  readonly kernel: string;
  readonly value: number;
}

/** What ST608 says of conn_reuse_mode on a node of this kube-proxy and kernel. */
async function found({version, kernel, value}: Setup): Promise<readonly string[]> {
  const given = await scenario('ipvs/1.28');
  given.file('node-a', 'kube-proxy-version', `${version}\n`);
  given.file('node-a', 'sysctls', `net.ipv4.vs.conn_reuse_mode = ${value}\n`);
  given.nodeObject('node-a', object => ({
    ...object,
    status: {...object.status, nodeInfo: {...object.status?.nodeInfo, kernelVersion: kernel}},
  }));
  const all = given.findings({nodes: name => name === 'node-a', only: new Set(['ST608'])});
  return all.map(({message}) => message.replace(/:.*/, ''));
}

/** The switch is as kube-proxy sets it, which is itself the defect. */
const asSet = (kernel: string) => [`net.ipv4.vs.conn_reuse_mode is 0, as this kube-proxy sets it on kernel ${kernel}`];
const is = (value: number, wanted: number) => [`net.ipv4.vs.conn_reuse_mode is ${value}, and kube-proxy runs with ${wanted}`];

test.each([
  // Since 5.9 the kernel is no cause, and 0 is what this kube-proxy works with.
  ['v1.21.14', '6.1.0', 0, []],
  ['v1.21.14', '5.8.0', 0, asSet('5.8.0')],
  ['v1.21.14', '6.1.0', 1, is(1, 0)],
  ['v1.22.0', '6.1.0', 1, []],
  ['v1.22.0', '6.1.0', 0, is(0, 1)],
  ['v1.22.0', '5.8.0', 0, asSet('5.8.0')],
  ['v1.28.3', '4.18.0-553.el8.x86_64', 0, asSet('4.18.0-553.el8.x86_64')],
  ['v1.28.3', '6.1.0', 1, []],
  ['v1.28.3', '5.8.0', 1, is(1, 0)],
] as const)('kube-proxy %s on kernel %s with conn_reuse_mode %i', async (version, kernel, value, expected) => {
  expect(await found({version, kernel, value})).toEqual(expected);
});

test.each([0, 1])('either value is accepted of a pre-release of 1.22.0 (%i)', async value => {
  expect(await found({version: 'v1.22.0-rc.0', kernel: '6.1.0', value})).toEqual([]);
});
