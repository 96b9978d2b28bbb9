#!/usr/bin/env node
// kubectl calls this as kubectl_complete-svc_trace. Without a Node.js that is new enough it completes nothing; the program says why.
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  const {runWithNewerNode} = await import('./newer-node.js');
  await runWithNewerNode(import.meta.url);
  process.stdout.write(':4\n');
} else {
  const {completeMain} = await import('../dist/complete.js');
  await completeMain(process.argv.slice(2), import.meta.url);
}
