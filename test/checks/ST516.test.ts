import {expect, test} from 'vitest';
import type {NodeCheckContext} from '../../src/checks/check-types.ts';
import {twoProxies} from '../../src/checks/kube-proxy.ts';
import type {PodObject} from '../../src/model/api-objects.ts';
import {noObjects} from '../../src/model/snapshot.ts';
import {containing, type FindingSummary, scenario} from '../scenario.ts';

interface Given {
  readonly name: string;
  readonly owner?: string;
  readonly phase?: string;
  readonly leaves?: boolean;
  readonly args?: readonly string[];
}

function pod({name, owner, phase = 'Running', leaves = false, args = []}: Given): PodObject {
  const isRouter = name.startsWith('kube-router');
  return {
    metadata: {
      ...{name, namespace: 'kube-system', labels: isRouter ? {'k8s-app': 'kube-router'} : {'k8s-app': 'kube-proxy'}},
      ...(leaves ? {deletionTimestamp: '2026-11-21T09:31:23Z'} : {}),
      ownerReferences: owner === undefined ? [] : [{apiVersion: 'apps/v1', kind: 'DaemonSet', name: owner, uid: owner, controller: true}],
    },
    spec: {nodeName: 'node-a', containers: [{name: isRouter ? 'kube-router' : 'kube-proxy', args}]},
    status: {phase},
  };
}

async function found(...pods: readonly Given[]): Promise<readonly FindingSummary[]> {
  const given = await scenario();
  given.api(({pods: before}) => ({pods: [...(before ?? []), ...pods.map(pod)]}));
  return given.newFindings().filter(({code}) => code === 'ST516');
}

const daemon = {name: 'kube-proxy-x7', owner: 'kube-proxy'};

test('two kube-proxies of different controllers are reported with their pods', async () => {
  expect(await found(daemon, {name: 'kube-proxy-node-a'})).toEqual([
    {
      ...{code: 'ST516', severity: 'warning', node: 'node-a'},
      message: containing('pod kube-system/kube-proxy-x7 and pod kube-system/kube-proxy-node-a both write rules for Services'),
    },
  ]);
});

test('kube-proxy and kube-router are reported, unless kube-router is told to leave Services alone', async () => {
  const router = {name: 'kube-router-b2', owner: 'kube-router'};
  expect(await found(daemon, {...router, args: ['--run-router=true']})).toMatchObject([{code: 'ST516'}]);
  expect(await found(daemon, {...router, args: ['--run-service-proxy=false']})).toEqual([]);
});

test('an update in progress, a pod that is deleted or does not run, and one kube-proxy alone stay silent', async () => {
  expect(await found(daemon)).toEqual([]);
  expect(await found(daemon, {name: 'kube-proxy-y8', owner: 'kube-proxy'})).toEqual([]);
  expect(await found(daemon, {name: 'kube-proxy-node-a', leaves: true})).toEqual([]);
  expect(await found(daemon, {name: 'kube-proxy-node-a', phase: 'Failed'})).toEqual([]);
});

test('a kube-proxy pod beside that in k3s is reported, and the static pod of RKE2 is not', async () => {
  const of = async (annotation: string, own: Given): Promise<readonly FindingSummary[]> => {
    const given = await scenario();
    given.nodeObject('node-a', node => ({...node, metadata: {...node.metadata, annotations: {[annotation]: '["server"]'}}}));
    given.api(({pods}) => ({pods: [...(pods ?? []), pod(own)]}));
    return given.newFindings().filter(({code}) => code === 'ST516');
  };
  expect(await of('k3s.io/node-args', daemon)).toMatchObject([
    {message: containing('the kube-proxy in k3s and pod kube-system/kube-proxy-x7')},
  ]);
  expect(await of('rke2.io/node-args', {name: 'kube-proxy-node-a'})).toEqual([]);
});

test('the command quotes the name of a node', () => {
  const name = 'node-a; reboot';
  const pods = [daemon, {name: 'kube-proxy-node-a'}].map(pod).map(one => ({...one, spec: {...one.spec, nodeName: name}}));
  const [found] = twoProxies.node?.({api: {...noObjects, pods}, node: {name}} as unknown as NodeCheckContext) ?? [];
  expect(found?.command).toContain("--field-selector 'spec.nodeName=node-a; reboot'");
});
