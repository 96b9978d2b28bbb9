import {assertBroken, assertClean, assertDiff, assertPacket, assertPreview, assertStopped, assertTrace} from './right-report.ts';
import type {WrittenBundles} from './written-bundles.ts';

/** A command on the bundles of one cluster, and the test that it came to what it should: a figure for a wrong answer means nothing. */
export interface BenchedCommand {
  readonly name: string;
  /** Whether it reads both bundles: then the floor does too. */
  readonly readsBoth?: boolean;
  /** Whether it is run on nodes of nftables mode too, of which there is no bundle with faults. */
  readonly inNftables?: boolean;
  readonly args: (bundles: WrittenBundles) => readonly string[];
  /** Throws when the report is wrong. */
  readonly assert: (result: {readonly exitCode: number; readonly stdout: string}, bundles: WrittenBundles) => void;
}

const json = ['-o', 'json'];

/** Nodes that were not captured are not asked for: they would be warnings. */
const only = ({nodes}: WrittenBundles) => nodes.flatMap(name => ['--node', name]);

export const benchedCommands: readonly BenchedCommand[] = [
  {
    name: 'check -A',
    inNftables: true,
    args: bundles => ['check', '-A', ...only(bundles), '--from', bundles.before, ...json],
    assert: (result, {nodes}) => assertClean(result, nodes.length),
  },
  {
    name: 'check -A, faults',
    args: bundles => ['check', '-A', ...only(bundles), '--from', bundles.after, ...json],
    assert: assertBroken,
  },
  {
    name: 'check -A, stopped',
    args: bundles => ['check', '-A', ...only(bundles), '--from', bundles.stopped, ...json],
    assert: (result, {nodes}) => assertStopped(result, nodes.length),
  },
  {
    name: 'trace SERVICE',
    inNftables: true,
    args: bundles => ['trace', bundles.target.service, ...only(bundles), '--from', bundles.before, ...json],
    assert: assertTrace,
  },
  {
    name: 'packet',
    inNftables: true,
    args: ({before, target: {node, source, clusterIP, port}}) => [
      ...['packet', '--from', before, '--node', node, '--source', source],
      ...['--destination', clusterIP, '--port', String(port), ...json],
    ],
    assert: (result, {target}) => assertPacket(result, target),
  },
  {
    name: 'preview -A',
    args: bundles => ['preview', '-A', '--proxy-mode', 'nftables', ...only(bundles), '--from', bundles.before, ...json],
    assert: (result, {nodes}) => assertPreview(result, nodes.length),
  },
  {
    name: 'diff',
    readsBoth: true,
    args: ({before, after}) => ['diff', before, after, ...json],
    assert: (result, {broken}) => assertDiff(result, broken),
  },
];
