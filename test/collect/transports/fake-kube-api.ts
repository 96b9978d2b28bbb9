import {type ApiAnswer, ApiError, type ExecTarget, type KubeApi, type ListResult} from '../../../src/collect/kube/kube-api.ts';
import {CommandFailed} from '../../../src/collect/node/transport.ts';
import type {PodObject} from '../../../src/model/api-objects.ts';

interface StoredPod {
  readonly metadata: {readonly name: string; readonly namespace: string; [key: string]: unknown};
  readonly spec?: Record<string, unknown>;
  status?: unknown;
}

/** An API server in memory that holds pods, and answers as the test says. */
export class FakeKubeApi implements KubeApi {
  readonly clockAheadMs = 0;
  readonly pods = new Map<string, StoredPod>();
  /** All that was asked for, such as `POST /api/v1/…`. */
  readonly calls: string[] = [];
  /** Whether each DELETE would end if it were not answered. */
  readonly deletesWithLimit: boolean[] = [];
  /** What each pod that is created says of itself, one after another; the last stays. */
  statuses: readonly unknown[] = [{phase: 'Running'}];
  /** What a command prints; throws what exec is to reject with. */
  onExec: (argv: readonly string[], target: ExecTarget) => string = () => '';
  onCreate: () => void = () => {};
  #reads = 0;

  async get<T>(path: string): Promise<T> {
    this.calls.push(`GET ${path}`);
    const pod = this.pods.get(path);
    if (pod === undefined) throw new ApiError('not found', {status: 404});
    const status = this.statuses[Math.min(this.#reads++, this.statuses.length - 1)];
    return {...pod, status} as T;
  }

  async list<T>(path: string, query?: Readonly<Record<string, string>>): Promise<ListResult<T>> {
    this.calls.push(`LIST ${path} ${JSON.stringify(query)}`);
    return {items: [...this.pods.values()] as T[], resourceVersion: '1'};
  }

  /** What a node answers at a path of the API server's proxy; throws what the API server says where it reaches nothing. */
  onProxied: (path: string) => ApiAnswer = () => {
    throw new ApiError('error trying to reach service: dial tcp 172.18.0.11:10256: connect: connection refused', {status: 503});
  };

  async proxied(path: string): Promise<ApiAnswer> {
    this.calls.push(`PROXY ${path}`);
    return this.onProxied(path);
  }

  async *#nothing(): AsyncGenerator<Buffer> {}

  async stream(): Promise<AsyncIterable<Buffer>> {
    return this.#nothing();
  }

  async create<T>(path: string, body: object): Promise<T> {
    const pod = body as StoredPod;
    this.calls.push(`POST ${path}`);
    this.onCreate();
    this.pods.set(`${path}/${pod.metadata.name}`, pod);
    return body as T;
  }

  async delete(path: string, _query?: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<void> {
    this.calls.push(`DELETE ${path}`);
    this.deletesWithLimit.push(signal !== undefined);
    this.pods.delete(path);
  }

  async exec(target: ExecTarget, argv: readonly string[]): Promise<Buffer> {
    return Buffer.from(this.onExec(argv, target));
  }

  async podToken(): Promise<string | null> {
    return null;
  }

  close(): void {}
}

/** What exec rejects with for a program that the container lacks. */
export function absent(argv: readonly string[]): CommandFailed {
  return new CommandFailed(argv, {exitCode: null, stderr: 'executable file not found in $PATH', notFound: true});
}

/** A running pod of the host network. */
export function hostPod(
  name: string,
  changes: {
    readonly namespace?: string;
    readonly labels?: Record<string, string>;
    readonly containers?: readonly string[];
    readonly phase?: string;
    readonly hostNetwork?: boolean;
    readonly node?: string;
  } = {},
): PodObject {
  const {namespace = 'kube-system', labels = {}, containers = ['main'], phase = 'Running', hostNetwork = true, node = 'node-a'} = changes;
  return {
    metadata: {name, namespace, labels},
    spec: {nodeName: node, hostNetwork, containers: containers.map(container => ({name: container}))},
    status: {phase},
  };
}
