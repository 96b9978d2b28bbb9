import {readdirSync} from 'node:fs';
import {join} from 'node:path';
import {readBundle} from '../src/collect/bundle/read-bundle.ts';
import type {ServiceObject} from '../src/model/api-objects.ts';
import type {NodeDump, Snapshot} from '../src/model/snapshot.ts';
import {readWhole, wholeCapture} from './shared-fixtures.ts';

const root = join(import.meta.dirname, 'fixtures');

/** The kinds of captures; `faults` are those in which something is wrong, `ipvs` and `nftables` healthy nodes in that mode. */
export const captureGroups = ['healthy', 'settings', 'eras', 'faults', 'ipvs', 'nftables'] as const;
export type CaptureGroup = (typeof captureGroups)[number];

/** The path of one fixture, such as `kube-proxy-example-1.36.iptables-save`. */
export function fixture(name: string): string {
  const [, capture, file] = /^captures\/([^/]+\/[^/]+)(?:\/(.*))?$/.exec(name) ?? [];
  return capture === undefined ? join(root, name) : join(capturePath(capture), file ?? '');
}

/** The contents of one fixture, also of one that is kept as what differs from another. */
export function readFixture(name: string): Buffer {
  return readWhole(fixture(name));
}

const capturePaths = new Map<string, string>();

/** The path of one capture, such as `healthy/1.36-iptables`: a bundle, which is only to be read. */
export function capturePath(name: string): string {
  const path = capturePaths.get(name) ?? wholeCapture(name);
  capturePaths.set(name, path);
  return path;
}

/** The names of the captures of some groups, in order. */
export function captureNames(...groups: readonly CaptureGroup[]): readonly string[] {
  return groups.flatMap(group =>
    readdirSync(join(root, 'captures', group))
      .sort()
      .map(name => `${group}/${name}`),
  );
}

const snapshots = new Map<string, Promise<Snapshot>>();

/** One capture as a Snapshot; read once for all tests of a file. */
export function snapshotOf(name: string): Promise<Snapshot> {
  const known = snapshots.get(name) ?? readBundle(capturePath(name));
  snapshots.set(name, known);
  return known;
}

/** Every fifth Service of a capture, others in each: most captures are of the same cluster. */
export function fifthOfServices({api}: Snapshot, name: string): readonly ServiceObject[] {
  const first = captureNames('healthy', 'settings', 'eras', 'faults').indexOf(name);
  return (api.services ?? []).filter((_, index) => (index + first) % 5 === 0);
}

/** The node with these files in place of its own; null is no file. */
export function withFiles(node: NodeDump, own: Readonly<Record<string, Buffer | string | null>>): NodeDump {
  const contents = new Map(
    Object.entries(own).map(([file, content]) => [file, typeof content === 'string' ? Buffer.from(content) : content]),
  );
  const files = [...new Set([...node.files, ...contents.keys()])].filter(file => contents.get(file) !== null).sort();
  return {
    ...{...node, name: node.name, files},
    read: file => {
      const content = contents.get(file);
      return content === undefined ? node.read(file) : content;
    },
  };
}
