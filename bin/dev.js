#!/usr/bin/env node
const {main} = await import('../src/cli/main.ts');
await main(process.argv.slice(2), import.meta.url);
