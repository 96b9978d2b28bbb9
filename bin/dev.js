#!/usr/bin/env node
// Runs from the sources, which takes a Node.js that reads TypeScript.
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  const {runWithNewerNode} = await import('./newer-node.js');
  await runWithNewerNode(import.meta.url);
}
const {main} = await import('../src/cli/main.ts');
await main(process.argv.slice(2), import.meta.url);
