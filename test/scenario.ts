import {expect} from 'vitest';
import {type DiagnoseOptions, diagnose} from '../src/diagnose.ts';
import type {EndpointSliceObject, NodeObject, ServiceObject} from '../src/model/api-objects.ts';
import {entryText} from '../src/model/service-port.ts';
import type {Finding} from '../src/model/finding.ts';
import type {ApiObjects, NodeDump, Snapshot} from '../src/model/snapshot.ts';
import {diagnosed} from './diagnosed.ts';
import {EditableDump} from './editable-dump.ts';
import {snapshotOf, withFiles} from './fixtures.ts';

/** A capture whose dumps and objects a test changes in memory before it is evaluated. */
export class Scenario {
  readonly #origin: Snapshot;
  #api: ApiObjects;
  readonly #files = new Map<string, EditableDump | string | null>();
  readonly #leftOut = new Set<string>();
  #isApiOnly = false;

  constructor(origin: Snapshot) {
    this.#origin = origin;
    this.#api = origin.api;
  }

  /** The rules of a node, to be changed. The IPv4 dump unless said otherwise. */
  rules(node: string, file = 'iptables-save'): EditableDump {
    const known = this.#files.get(`${node}/${file}`);
    if (known instanceof EditableDump) return known;
    const dump = new EditableDump(this.#read(node, file));
    this.#files.set(`${node}/${file}`, dump);
    return dump;
  }

  /** Puts a file in the place of a node's own; null takes it away. */
  file(node: string, name: string, content: string | null): void {
    this.#files.set(`${node}/${name}`, content);
  }

  /** Gives a file back as the capture has it. */
  restore(node: string, name: string): void {
    this.#files.delete(`${node}/${name}`);
  }

  /** Takes away all that was read of a node. */
  leaveOut(node: string): void {
    this.#leftOut.add(node);
  }

  /** Leaves the API objects alone: what follows is found without any node, beside that none was checked. */
  leaveOutNodes(): void {
    this.#isApiOnly = true;
    for (const {name} of this.#origin.nodes) this.leaveOut(name);
  }

  /** Changes the Service `namespace/name`. */
  service(name: string, change: (service: ServiceObject) => ServiceObject): void {
    this.#api = {...this.#api, services: changeOne(this.#api.services, object => fullName(object) === name, change)};
  }

  deleteService(name: string): void {
    this.#api = {...this.#api, services: (this.#api.services ?? []).filter(object => fullName(object) !== name)};
  }

  addService(...services: readonly ServiceObject[]): void {
    this.#api = {...this.#api, services: [...(this.#api.services ?? []), ...services]};
  }

  /** Changes all slices of the Service `namespace/name`. */
  slices(service: string, change: (slice: EndpointSliceObject) => EndpointSliceObject): void {
    this.#api = {...this.#api, endpointSlices: changeOne(this.#api.endpointSlices, slice => ownerOf(slice) === service, change)};
  }

  deleteSlices(service: string): void {
    this.#api = {...this.#api, endpointSlices: (this.#api.endpointSlices ?? []).filter(slice => ownerOf(slice) !== service)};
  }

  addSlice(...slices: readonly EndpointSliceObject[]): void {
    this.#api = {...this.#api, endpointSlices: [...(this.#api.endpointSlices ?? []), ...slices]};
  }

  nodeObject(name: string, change: (node: NodeObject) => NodeObject): void {
    this.#api = {...this.#api, nodes: changeOne(this.#api.nodes, ({metadata}) => metadata.name === name, change)};
  }

  deleteNodeObject(name: string): void {
    this.#api = {...this.#api, nodes: (this.#api.nodes ?? []).filter(({metadata}) => metadata.name !== name)};
  }

  api(change: (api: ApiObjects) => Partial<ApiObjects>): void {
    this.#api = {...this.#api, ...change(this.#api)};
  }

  /** The capture itself as long as nothing was changed, so that what was found in it need not be found again. */
  snapshot(): Snapshot {
    if (this.#api === this.#origin.api && this.#files.size === 0 && this.#leftOut.size === 0) return this.#origin;
    return {...this.#origin, api: this.#api, nodes: this.#nodes(), ...(this.#isApiOnly ? {chosenNodes: true} : {})};
  }

  findings(options: Partial<DiagnoseOptions> = {}): readonly Finding[] {
    return findingsOf(this.snapshot(), options);
  }

  /** All that is found, in few words. */
  summaries(options: Partial<DiagnoseOptions> = {}): readonly FindingSummary[] {
    return this.findings(options).map(summaryOf);
  }

  /** What is found now and was not found in the capture as it is; of the nodes as they were, nothing is checked again. */
  newFindings(options: Partial<DiagnoseOptions> = {}): readonly FindingSummary[] {
    const old = known(this.#origin);
    return this.findings({...this.#whereChanged(), ...options})
      .filter(finding => !old.has(identity(finding)) && !isOfRun(finding))
      .map(summaryOf);
  }

  /** As long as the API is as it was, nothing can be new on nodes that are as they were. */
  #whereChanged(): Partial<DiagnoseOptions> {
    if (this.#api !== this.#origin.api) return {};
    const changed = new Set([...this.#files.keys()].map(path => path.split('/', 1)[0] ?? ''));
    return {nodes: name => changed.has(name) || this.#leftOut.has(name)};
  }

  #nodes(): readonly NodeDump[] {
    return this.#origin.nodes.filter(({name}) => !this.#leftOut.has(name)).map(node => this.#changed(node));
  }

  #changed(node: NodeDump): NodeDump {
    const changed = new Map(
      [...this.#files]
        .filter(([path]) => path.startsWith(`${node.name}/`))
        .map(([path, content]) => [path.slice(node.name.length + 1), content]),
    );
    if (changed.size === 0) return node;
    return withFiles(node, Object.fromEntries([...changed].map(([file, content]) => [file, content?.toString() ?? null])));
  }

  #read(node: string, file: string): string {
    const content = this.#origin.nodes.find(({name}) => name === node)?.read(file);
    if (content === undefined || content === null) throw new Error(`the capture has no ${file} of ${node}`);
    return content.toString();
  }
}

/** That no node was checked, where only some are looked at. */
function isOfRun({message}: Finding): boolean {
  return message.startsWith('no node was checked');
}

/** The capture of this name, ready to be changed: `healthy/1.36-iptables` unless said otherwise. */
export async function scenario(capture = 'healthy/1.36-iptables'): Promise<Scenario> {
  return new Scenario(await snapshotOf(capture));
}

const knownFindings = new WeakMap<Snapshot, ReadonlySet<string>>();

/** What is found in a capture as it is; worked out once. */
function known(snapshot: Snapshot): ReadonlySet<string> {
  const found = knownFindings.get(snapshot) ?? new Set(findingsOf(snapshot).map(identity));
  knownFindings.set(snapshot, found);
  return found;
}

/** A finding in the few words in which a test expects it. Rules that are there come with their line in the dump. */
export interface FindingSummary {
  readonly code: string;
  readonly severity: string;
  readonly message: string;
  readonly node?: string;
  readonly family?: string;
  /** `namespace/name`, and the name of the port behind a colon. */
  readonly subject?: string;
  readonly entry?: string;
  readonly endpoint?: string;
  readonly expected?: readonly string[];
  readonly actual?: readonly string[];
}

export function summaryOf({
  code,
  severity,
  message,
  node,
  family,
  service,
  port,
  entry,
  endpoint,
  expected,
  actual,
}: Finding): FindingSummary {
  const portName = port === undefined ? '' : `:${port.name}`;
  return {
    ...{code, severity, message},
    ...(node === undefined ? {} : {node}),
    ...(family === undefined ? {} : {family}),
    ...(service === undefined ? {} : {subject: `${service.namespace}/${service.name}${portName}`}),
    ...(entry === undefined ? {} : {entry: entryText(entry)}),
    ...(endpoint === undefined ? {} : {endpoint}),
    ...(expected === undefined || expected.length === 0 ? {} : {expected: expected.map(({text}) => text)}),
    ...(actual === undefined || actual.length === 0 ? {} : {actual: actual.map(({line, text}) => `${line}: ${text}`)}),
  };
}

/** A message that says these words, in this order. */
export function containing(...words: readonly string[]): string {
  return expect.stringMatching(new RegExp(words.map(word => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('[^]*')));
}

export function findingsOf(snapshot: Snapshot, options: Partial<DiagnoseOptions> = {}): readonly Finding[] {
  const isPlain = Object.keys(options).length === 0;
  return (isPlain ? diagnosed(snapshot) : diagnose(snapshot, {toolVersion: '0.0.0', ...options})).findings;
}

/** Findings that a user is to act on. */
export function needsAction({severity}: {readonly severity: string}): boolean {
  return severity !== 'info';
}

function identity(finding: Finding): string {
  return JSON.stringify([finding.code, finding.node, finding.family, finding.message]);
}

function changeOne<T>(list: readonly T[] | null, isIt: (item: T) => boolean, change: (item: T) => T): readonly T[] {
  if (!list?.some(isIt)) throw new Error('the capture has no such object');
  return list.map(item => (isIt(item) ? change(item) : item));
}

function fullName({metadata}: ServiceObject): string {
  return `${metadata.namespace ?? 'default'}/${metadata.name}`;
}

function ownerOf({metadata}: EndpointSliceObject): string {
  return `${metadata.namespace ?? 'default'}/${metadata.labels?.['kubernetes.io/service-name'] ?? ''}`;
}
