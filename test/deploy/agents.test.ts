import {describe, expect} from 'vitest';
import {capturePath} from '../fixtures.ts';
import {testWithKubectl} from '../kubectl.ts';
import {startAgent} from './agent-run.ts';
import {built, overlayNamed} from './overlays.ts';
import {type Container, podsOf} from './pods.ts';
import {clusterOf, unused} from './rights.ts';

interface Probe {
  readonly httpGet: {readonly path: string; readonly port: string};
}

type AgentContainer = Container & Readonly<Record<'startupProbe' | 'livenessProbe' | 'readinessProbe', Probe>>;

async function agentContainer(): Promise<AgentContainer> {
  const [pod] = podsOf(await built(overlayNamed('agents')));
  return pod?.containers[0] as AgentContainer;
}

/** As in the DaemonSet, but for the port, and for how long it waits. */
function argsOf({args = []}: Container): readonly string[] {
  return args.map(word => word.replace('$(HOST_IP):10270', '127.0.0.1:0').replace(/^60s$/, '1s'));
}

const capture = 'faults/missing-endpoint';

describe('the agent of the DaemonSet', () => {
  testWithKubectl('judges its node with the rights that it is given, and uses all of these', async () => {
    const objects = await built(overlayNamed('agents'));
    const container = await agentContainer();
    await using cluster = await clusterOf(objects, capture);
    await using agent = await startAgent({
      ...{bundle: capturePath(capture), node: 'node-a', kubeconfig: cluster.kubeconfig, args: argsOf(container)},
    });
    const {text} = await agent.page('/metrics');
    expect(text).toContain(
      'svc_trace_findings{code="ST202",name="missing-endpoint",severity="error",node="node-a",namespace="shop",service="web"} 1',
    );
    expect(text).toContain('svc_trace_complete 1');
    // k3s and RKE2 alone.
    expect(unused(objects, cluster.requests)).toEqual(['list /nodes']);
    for (const probe of [container.startupProbe, container.livenessProbe, container.readinessProbe])
      expect((await agent.page(probe.httpGet.path)).status).toBe(200);
  });
});
