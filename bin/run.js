#!/usr/bin/env node
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  const {runWithNewerNode} = await import('./newer-node.js');
  await runWithNewerNode(import.meta.url);
  console.error(`svc-trace needs Node.js 22.19 or newer, and this is ${process.version}. In a checkout, "npm ci" installs a newer one.`);
  process.exit(2);
}
// Compiled code is kept beside what kubectl keeps, where kubectl is used: the next start takes less time.
const kube = `${process.env.HOME ?? process.env.USERPROFILE}/.kube`;
if (process.getBuiltinModule('node:fs').existsSync(kube))
  process.getBuiltinModule('node:module').enableCompileCache(`${kube}/cache/svc-trace`);
const {main} = await import('../dist/main.js');
await main(process.argv.slice(2), import.meta.url);
