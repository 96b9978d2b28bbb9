#!/usr/bin/env node
// kubectl calls this as kubectl_complete-svc_trace. An old Node.js completes nothing; the program itself says why.
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 19)) process.stdout.write(':4\n');
else {
  const {completeMain} = await import('../dist/complete.js');
  await completeMain(process.argv.slice(2), import.meta.url);
}
