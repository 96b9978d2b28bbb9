import {Buffer} from 'node:buffer';
import type {NodeDump, Snapshot} from '../src/model/snapshot.ts';

/** The same snapshot, as if its dumps had been made by `iptables-save -c`: a rule in line N was passed by N packets of 60 bytes. */
export function counted(snapshot: Snapshot): Snapshot {
  return {...snapshot, nodes: snapshot.nodes.map(countedNode)};
}

function countedNode(node: NodeDump): NodeDump {
  return {
    ...node,
    read: file => {
      const content = node.read(file);
      if (content === null || !/tables-(?:nft-|legacy-)?save$/.test(file)) return content;
      const lines = content.toString('utf8').split('\n');
      return Buffer.from(
        lines.map((line, index) => (line.startsWith('-A ') ? `[${index + 1}:${(index + 1) * 60}] ${line}` : line)).join('\n'),
      );
    },
  };
}
