// Loaded with --import: writes the path of each module that is loaded from a file, one a line, and at the end what was loaded of Node.js
// itself, as `builtin NAME`.
import {appendFileSync} from 'node:fs';
import {registerHooks} from 'node:module';
import process from 'node:process';
import {fileURLToPath} from 'node:url';

registerHooks({
  load(url, context, nextLoad) {
    if (url.startsWith('file:')) appendFileSync(process.env.MODULE_LIST, `${fileURLToPath(url)}\n`);
    return nextLoad(url, context);
  },
});

process.on('exit', () => {
  const builtins = process.moduleLoadList.map(name => name.replace(/^NativeModule /, 'builtin '));
  appendFileSync(process.env.MODULE_LIST, `${builtins.filter(name => name.startsWith('builtin ')).join('\n')}\n`);
});
