import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {loadAll} from 'js-yaml';
import {describe, expect, test} from 'vitest';
import {agentAudience} from '../../src/collect/agents/agent-tokens.ts';
import {capturePath} from '../fixtures.ts';
import {testWith} from '../require.ts';
import {startAgent} from './agent-run.ts';
import {built, deployFolder, overlayNamed} from './overlays.ts';
import {type Container, podsOf} from './pods.ts';
import type {StoredObject} from '../stand-in/object-store.ts';
import {clusterOf, unused} from './rights.ts';
import {runContainer} from './run-container.ts';

interface Rule extends Partial<Record<'apiGroups' | 'resources' | 'resourceNames' | 'nonResourceURLs', readonly string[]>> {
  readonly verbs: readonly string[];
}

interface Probe {
  readonly httpGet: {readonly path: string; readonly port: string; readonly scheme: string};
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
  testWith(['kubectl'], 'checks its node with the permissions of its Role, and uses all of them', async () => {
    const objects = await built(overlayNamed('agents'));
    const container = await agentContainer();
    await using cluster = await clusterOf(objects, capture);
    await using agent = await startAgent({
      ...{bundle: capturePath(capture), node: 'node-a', kubeconfig: cluster.kubeconfigOf('svc-trace-agent'), args: argsOf(container)},
    });
    const {text} = await agent.page('/metrics');
    expect(text).toContain(
      'svc_trace_findings{code="ST202",name="missing-endpoint",severity="error",node="node-a",namespace="shop",service="web"} 1',
    );
    expect(text).toContain('svc_trace_complete 1');
    // k3s and RKE2 alone.
    expect(unused(objects, 'svc-trace-agent', cluster.server.requests)).toEqual(['list /nodes']);
    for (const {httpGet} of [container.startupProbe, container.livenessProbe, container.readinessProbe]) {
      expect(httpGet).toMatchObject({port: 'https', scheme: 'HTTPS'});
      expect(await agent.page(httpGet.path, '')).toEqual({status: 200, text: 'ok\n'});
    }
  });
});

describe('Roles', () => {
  const rulesOf = (objects: readonly unknown[]) =>
    (objects as readonly {readonly kind: string; readonly metadata: {readonly namespace?: string}; readonly rules?: unknown}[])
      .filter(({rules}) => rules !== undefined)
      .map(({kind, metadata, rules}) => ({kind, namespace: metadata.namespace, rules}));
  const inDocs = (name: string) => rulesOf(loadAll(readFileSync(join(deployFolder, '../docs/rbac', name), 'utf8')));
  const inDeploy = (name: string) => rulesOf(loadAll(readFileSync(join(deployFolder, name), 'utf8')));

  test('of the agents are those of docs/rbac', () => {
    expect(inDeploy('agents/rbac.yaml')).toEqual(inDocs('agent.yaml'));
    expect(inDeploy('agents/readers.yaml').slice(0, 1)).toEqual(inDocs('agents-reader.yaml'));
  });

  test('of the jobs are within those of docs/rbac, as no Service or pod is requested by name', () => {
    const flat = (rules: ReturnType<typeof rulesOf>) =>
      rules.flatMap(({namespace, rules: own}) =>
        (own as readonly Rule[]).flatMap(rule =>
          [...(rule.resources ?? []), ...(rule.nonResourceURLs ?? [])].flatMap(resource =>
            rule.verbs.map(
              verb => `${verb} ${rule.apiGroups?.join() ?? ''}/${resource} ${rule.resourceNames?.join() ?? ''} ${namespace ?? ''}`,
            ),
          ),
        ),
      );
    const left = (all: string, own: string) => flat(inDocs(all)).filter(right => !flat(inDeploy(own)).includes(right));
    expect(flat(inDeploy('cronjob/rbac.yaml')).filter(right => !flat(inDocs('exec.yaml')).includes(right))).toEqual([]);
    expect(left('exec.yaml', 'cronjob/rbac.yaml').toSorted()).toEqual(['get /pods  ', 'get /services  ']);
    expect(flat(inDeploy('components/gather/rbac.yaml')).filter(right => !flat(inDocs('agents-pod.yaml')).includes(right))).toEqual([]);
    expect(left('agents-pod.yaml', 'components/gather/rbac.yaml')).toEqual(['get /services  ']);
  });
});

describe('the job that collects the results', () => {
  testWith(['kubectl'], 'reads from the agents with the permissions of its Role, and uses all of them', async () => {
    const objects = await built(overlayNamed('agents with a job that collects their results'));
    const container = await agentContainer();
    const ports = new Map<string, number>();
    const nodes = ['node-a', 'node-b', 'node-c'];
    const proxy = ({metadata}: {readonly metadata: {readonly name: string}}) => ({port: ports.get(metadata.name) ?? 1});
    await using cluster = await clusterOf(objects, capture, {proxy});
    for (const node of nodes) cluster.server.store.put('pods', agentPod(node));
    await using agents = new AsyncDisposableStack();
    const kubeconfig = cluster.kubeconfigOf('svc-trace-agent');
    for (const node of nodes) {
      const agent = agents.use(await startAgent({bundle: capturePath(capture), node, kubeconfig, args: argsOf(container)}));
      ports.set(`svc-trace-agent-${node}`, agent.port);
    }
    const job = podsOf(objects).find(({serviceAccountName}) => serviceAccountName === 'svc-trace-check');
    const [checker] = job?.containers ?? [];
    const run = (account: string) => {
      const args = checker?.args?.map(word => word.replace(tokenPath, cluster.tokenFileOf(account))) ?? [];
      return runContainer(checker && {...checker, args}, {KUBECONFIG: cluster.kubeconfigOf('svc-trace-check')});
    };
    const {exitCode, stdout, stderr} = await run('svc-trace-check');
    expect({exitCode, stderr}).toEqual({exitCode: 1, stderr: ''});
    expect(stdout).toMatch(/^FAULTY: .*1 error on 1 of 3 nodes/);
    expect(unused(objects, 'svc-trace-check', cluster.server.requests)).toEqual([]);
    // A ServiceAccount that may not get /result.
    const refused = await run('svc-trace-agent');
    expect(refused.exitCode).toBe(3);
    expect(refused.stdout.replaceAll(/\s+/g, ' ')).toContain(
      'its agent svc-trace/svc-trace-agent-node-a refuses: the owner of the token in ',
    );
  });

  testWith(['kubectl'], 'sends the agents the token that is mounted for them', async () => {
    const objects = await built(overlayNamed('agents with a job that collects their results'));
    const job = podsOf(objects).find(({serviceAccountName}) => serviceAccountName === 'svc-trace-check');
    const [container] = job?.containers ?? [];
    const [mount] = (container?.volumeMounts ?? []).filter(({mountPath}) => tokenPath.startsWith(`${mountPath}/`));
    expect(container?.args).toContain(`--agents-token-file=${tokenPath}`);
    expect(job?.volumes).toContainEqual({
      name: mount?.name,
      projected: {sources: [{serviceAccountToken: {path: 'token', audience: agentAudience, expirationSeconds: 600}}]},
    });
  });
});

const tokenPath = '/var/run/secrets/svc-trace/token';

/** As the DaemonSet makes it. */
function agentPod(node: string): StoredObject {
  return {
    metadata: {namespace: 'svc-trace', name: `svc-trace-agent-${node}`, labels: {'app.kubernetes.io/name': 'svc-trace-agent'}},
    spec: {nodeName: node, hostNetwork: true, containers: [{name: 'agent', ports: [{name: 'https', containerPort: 10_270}]}]},
    status: {phase: 'Running', conditions: [{type: 'Ready', status: 'True'}]},
  };
}
