import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {someOf} from '../cases.ts';
import {snapshotOf} from '../fixtures.ts';

// A healthy node of which nothing but its dumps was read, and not all of those: neither the version nor a setting is known.
test.each(someOf(['healthy/1.36-iptables', 'healthy/1.23-iptables', 'settings/detect-bridge', 'eras/1.21-endpoints']))(
  'a truncated dump of %s is no fault of the node, wherever it ends',
  async name => {
    const snapshot = await snapshotOf(name);
    const [node] = snapshot.nodes;
    if (node === undefined) throw new Error('no node');
    for (const file of ['iptables-save', 'ip6tables-save']) {
      const whole = node.read(file) ?? Buffer.alloc(0);
      for (let part = 1; part < 7; part++) {
        const cut = whole.subarray(0, Math.floor((whole.length * part) / 7));
        const files = ['iptables-save', 'ip6tables-save'];
        const read = (asked: string) => (asked === file ? cut : files.includes(asked) ? node.read(asked) : null);
        const {findings, nodes} = diagnose({...snapshot, nodes: [{name: node.name, files, read}]}, {toolVersion: ''});
        const onNode = findings.filter(finding => finding.node === node.name && !/^ST9|^ST506$/.test(finding.code));
        const status = nodes.find(({name: found}) => found === node.name)?.status;
        expect({file, part, onNode, status}).toEqual({file, part, onNode: [], status: 'unread'});
      }
    }
  },
);
