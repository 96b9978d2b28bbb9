// Loaded with --import: writes the path of each module that is loaded from a file, one a line.
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
