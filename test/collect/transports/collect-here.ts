import process from 'node:process';
import {collectNode} from '../../../src/collect/node/collect-node.ts';
import {localTransport} from '../../../src/collect/transports/local.ts';
import {nodeAt} from './sshd.ts';

// Run inside a network namespace: prints what the local transport reads there.
const node = await collectNode(nodeAt(), localTransport({onlyNode: true}), {signal: new AbortController().signal, timeoutMs: 600_000});
const contents = Object.fromEntries(node.files.map(file => [file, node.read(file)?.toString('utf8')]));
process.stdout.write(JSON.stringify({...node, contents}));
