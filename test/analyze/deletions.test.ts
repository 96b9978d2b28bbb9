import process from 'node:process';
import {beforeAll, describe, expect, test} from 'vitest';
import type {Finding} from '../../src/model/finding.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {snapshotOf, withFiles} from '../fixtures.ts';
import {findingsOf, needsAction} from '../scenario.ts';
import {areIndependent, chainOf} from './order.ts';

/** Every so many rules; all of them with `SVC_TRACE_ALL=1`. The number has no factor in common with the groups that rules come in. */
const every = process.env['SVC_TRACE_ALL'] === '1' ? 1 : 11;

const dumps = ['1.36', '1.30', '1.26', '1.23'].flatMap(version =>
  ['iptables-save', 'ip6tables-save'].map(file => [`healthy/${version}-iptables`, file] as const),
);

describe.each(dumps)('%s, %s of node-a', (capture, file) => {
  let node: MutableNode;

  beforeAll(async () => {
    node = new MutableNode(await snapshotOf(capture), file);
  });

  test('has no finding before the change, so the change causes every finding', () => {
    expect(node.findings(node.lines)).toEqual([]);
  });

  test('a deleted rule of kube-proxy is reported, by at most one error or warning', () => {
    // In IPv6 kube-proxy marks nothing for the kubelet to drop, so that no packet needs its rules.
    const wrong = node.sample({kubelets: file === 'iptables-save'}).flatMap(at => {
      const found = node.findings(node.lines.toSpliced(at, 1));
      return found.length > 0 && found.filter(needsAction).length < 2 ? [] : [story(node.lines[at], found)];
    });
    expect(wrong).toEqual([]);
  });

  test('a duplicated rule of kube-proxy is reported, by at most one error or warning', () => {
    const wrong = node.sample().flatMap(at => {
      const found = node.findings(node.lines.toSpliced(at, 0, node.lines[at] ?? ''));
      return found.length > 0 && found.filter(needsAction).length < 2 ? [] : [story(node.lines[at], found)];
    });
    expect(wrong).toEqual([]);
  });

  test('two swapped rules are reported, unless their order does not matter', () => {
    const wrong = node.sample().flatMap(at => {
      const [first = '', second = ''] = node.lines.slice(at, at + 2);
      if (chainOf(first) !== chainOf(second) || first === second) return [];
      const found = node.findings(node.lines.toSpliced(at, 2, second, first));
      const silent = found.length === 0 && !areIndependent(first, second);
      return silent || found.filter(needsAction).length > 1 ? [story(`${first}\n  ${second}`, found)] : [];
    });
    expect(wrong).toEqual([]);
  });
});

class MutableNode {
  readonly lines: readonly string[];
  readonly #snapshot: Snapshot;
  readonly #file: string;

  constructor(snapshot: Snapshot, file: string) {
    this.#snapshot = snapshot;
    this.#file = file;
    this.lines = (
      snapshot.nodes
        .find(({name}) => name === 'node-a')
        ?.read(file)
        ?.toString() ?? ''
    ).split('\n');
  }

  /** The lines, counted from 0, of the rules in kube-proxy's chains and of the jumps to them. */
  sample({kubelets} = {kubelets: false}): readonly number[] {
    const rules = this.lines.flatMap((line, at) => (/^-A .*KUBE-/.test(line) && (kubelets || !this.#isKubelets(line)) ? [at] : []));
    return rules.filter((_, index) => index % every === 0);
  }

  /** What is found of the rules of the node when they read like this. */
  findings(lines: readonly string[]): readonly Finding[] {
    const nodes = this.#snapshot.nodes.map(node => (node.name === 'node-a' ? withFiles(node, {[this.#file]: lines.join('\n')}) : node));
    const all = findingsOf({...this.#snapshot, nodes}, {nodes: name => name === 'node-a'});
    return all.filter(({code}) => /^ST[2345]/.test(code));
  }

  /** Where a kubelet up to 1.26 is at work, it writes rules of its own by which it drops what kube-proxy marks. */
  #isKubelets(line: string): boolean {
    const atWork = this.lines.some(other => other.includes('--mark 0x8000/0x8000'));
    return atWork && (line.includes('0x8000') || /^-A (?:INPUT|OUTPUT) -j KUBE-FIREWALL$/.test(line));
  }
}

function story(rule: string | undefined, found: readonly Finding[]): string {
  return [rule, ...found.map(({severity, code, message}) => `    ${severity} ${code} ${message}`)].join('\n');
}
