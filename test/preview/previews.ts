import type {ConfigOverrides} from '../../src/expect/resolve-proxy-config.ts';
import type {Preview} from '../../src/model/preview-result.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {preview} from '../preview-of.ts';
import {type Scenario, scenario} from '../scenario.ts';

export const nodes = ['node-a', 'node-b', 'node-c'];

export function withKernel(kernelVersion: string): (given: Scenario) => void {
  return given => {
    for (const name of nodes)
      given.nodeObject(name, node => ({...node, status: {...node.status, nodeInfo: {...node.status?.nodeInfo, kernelVersion}}}));
  };
}

export interface PreviewSettings {
  /** Both sides are computed, whatever the capture holds of its nodes. */
  readonly expectedOnly?: boolean;
  /** All of the capture unless said otherwise. */
  readonly nodes?: readonly string[];
}

/** Of one node unless said otherwise. */
export function toNftables(
  change: (given: Scenario) => void = () => {},
  overrides: ConfigOverrides = {},
  settings: PreviewSettings = {nodes: ['node-a']},
): Promise<Preview> {
  return previewFrom('healthy/1.36-iptables', {mode: 'nftables', ...overrides}, change, settings);
}

export async function previewFrom(
  capture: string,
  overrides: ConfigOverrides,
  change: (given: Scenario) => void,
  settings: PreviewSettings = {},
): Promise<Preview> {
  const given = await scenario(capture);
  change(given);
  const snapshot = given.snapshot();
  return previewOf(snapshot, overrides, snapshot.api, settings);
}

const previewed = new WeakMap<Snapshot, Map<string, Preview>>();

/** Many tests ask for the same change of kube-proxy in the same capture: each is previewed once in a process. */
export function previewOf(
  snapshot: Snapshot,
  overrides: ConfigOverrides,
  apiAfter: Snapshot['api'] = snapshot.api,
  settings: PreviewSettings = {},
): Preview {
  if (apiAfter !== snapshot.api) return previewAgain(snapshot, overrides, apiAfter, settings);
  const known = previewed.get(snapshot) ?? new Map<string, Preview>();
  previewed.set(snapshot, known);
  const key = JSON.stringify([overrides, settings]);
  const found = known.get(key) ?? previewAgain(snapshot, overrides, apiAfter, settings);
  known.set(key, found);
  return found;
}

function previewAgain(
  snapshot: Snapshot,
  overrides: ConfigOverrides,
  apiAfter: Snapshot['api'],
  {expectedOnly = false, nodes: chosen}: PreviewSettings,
): Preview {
  const plan = {overrides, configFile: null};
  const wanted = snapshot.nodes.filter(({name}) => chosen?.includes(name) ?? true);
  return preview({
    snapshot,
    nodes: wanted,
    plan,
    apiAfter,
    selects: () => true,
    scope: namesOf(snapshot.api),
    services: 0,
    expectedOnly,
    notes: [],
  });
}

function namesOf({services}: Snapshot['api']): readonly string[] {
  return (services ?? []).map(({metadata}) => `${metadata.namespace}/${metadata.name}`);
}

export function idsOf({changes}: Preview, protocol?: string): readonly string[] {
  return [...new Set(changes.filter(({packet}) => protocol === undefined || packet.protocol === protocol).map(({cause}) => cause.id))];
}

export function adviceOf({advice}: Preview): readonly string[] {
  return advice.map(({id}) => id);
}

export function interfaces(...addresses: readonly string[]): string {
  return JSON.stringify([
    {ifname: 'lo', addr_info: [{local: '127.0.0.1'}, {local: '::1'}]},
    ...addresses.map((local, index) => ({ifname: `eth${index}`, addr_info: [{local}]})),
  ]);
}
