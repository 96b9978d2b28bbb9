// Writes oclif.manifest.json for the package: with it, oclif need not load every command to know its flags.
// It is never kept in a checkout, where it would hide a new command or flag.
import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {Plugin} from '@oclif/core';

const root = join(import.meta.dirname, '..');
const plugin = new Plugin({errorOnManifestCreate: true, ignoreManifest: true, isRoot: true, name: 'kubectl-svc-trace', root, type: 'core'});
await plugin.load();
writeFileSync(join(root, 'oclif.manifest.json'), `${JSON.stringify(plugin.manifest, null, 2)}\n`);
