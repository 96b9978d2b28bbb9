import {rmSync} from 'node:fs';
import {basename, join} from 'node:path';
import {type BuildOptions, build, type Metafile, type Plugin} from 'esbuild';

/** What Node.js loads one after the other in most runs. Chunks that the same of them need are one file. */
const usualEntries = [
  'src/cli/main.ts',
  'src/cli/complete/main.ts',
  'src/cli/complete/look-up-names.ts',
  'src/cli/run-command.ts',
  'src/cli/commands/explain.ts',
  'src/cli/commands/access.ts',
  'src/cli/commands/packet.ts',
  'src/cli/commands/trace.ts',
  'src/cli/commands/check.ts',
  'src/run/diagnose-cluster.ts',
  'src/index.ts',
];

type Outputs = Metafile['outputs'];

/** The chunks that become one file, by the name of this file. */
type Groups = ReadonlyMap<string, readonly string[]>;

/**
 * Merges the chunks of a bundle. esbuild makes one for each set of entries that share modules, and a command would load seventy: finding a
 * file takes Node.js longer than reading what is in most of them. Returns the account of the bundle as it then is.
 */
export async function mergeChunks(folder: string, metafile: Metafile, options: BuildOptions): Promise<Metafile> {
  const {outputs} = metafile;
  const groups = groupsOf(outputs);
  const merged = new Map([...groups].flatMap(([group, chunks]) => chunks.map(chunk => [chunk, group] as const)));
  const entries = Object.keys(outputs)
    .map(path => basename(path))
    .filter(file => file.endsWith('.js') && !merged.has(file));
  await build({
    ...options,
    // Paths in comments are relative to it, and the folder has another name in each build.
    absWorkingDir: folder,
    outdir: folder,
    allowOverwrite: true,
    entryPoints: [
      ...entries.map(file => ({in: join(folder, file), out: file.replace(/\.js$/, '')})),
      ...[...groups.keys()].map(file => ({in: `group:${file}`, out: file.replace(/\.js$/, '')})),
    ],
    plugins: [importGroups(folder, outputs, groups, merged)],
  });
  for (const [chunk, group] of merged) if (chunk !== group) rmSync(join(folder, chunk));
  return {...metafile, outputs: mergedOutputs(outputs, merged)};
}

/** Only chunks: the names of entries are known to those that import them when they are needed. */
function groupsOf(outputs: Outputs): Groups {
  const usual = Object.entries(outputs).filter(([, {entryPoint}]) => entryPoint !== undefined && usualEntries.includes(entryPoint));
  if (usual.length !== usualEntries.length) throw new Error('tools/merge-chunks.ts names an entry that the bundle does not have');
  const users = new Map<string, string[]>();
  for (const [path] of usual) for (const file of loadedWith(path, outputs)) users.set(file, [...(users.get(file) ?? []), path]);
  const chunks = [...users].filter(([path]) => outputs[path]?.entryPoint === undefined);
  const groups = Map.groupBy(chunks, ([path, paths]) => (isLight(path, outputs) ? '' : [...paths, ...packagesOf(path, outputs)].join()));
  return new Map([...groups.values()].map(group => group.map(([path]) => basename(path))).map(group => [group[0] ?? '', group]));
}

/**
 * Packages are loaded only by the commands that use them (test/start-up): what needs them is not merged with what does not. As all that is
 * loaded with a chunk counts, files do not import each other in a circle: what a chunk imports has as many users or more, and as many
 * packages or fewer.
 */
function packagesOf(path: string, outputs: Outputs): readonly string[] {
  const inputs = [...loadedWith(path, outputs)].flatMap(file => Object.keys(outputs[file]?.inputs ?? {}));
  return [...new Set(inputs.flatMap(input => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(input) ?? []))].sort();
}

/** A small chunk that needs only such chunks, and no module of Node.js: where it is not needed, reading it with others takes less time than a file of its own. */
function isLight(path: string, outputs: Outputs): boolean {
  const {bytes = 0, entryPoint, imports = []} = outputs[path] ?? {};
  if (bytes > 4096 || entryPoint !== undefined || packagesOf(path, outputs).length > 0) return false;
  return imports.every(({path: other, external}) => !external && isLight(other, outputs));
}

/** All files that are loaded with this one. */
function loadedWith(path: string, outputs: Outputs): ReadonlySet<string> {
  const found = new Set([path]);
  for (const file of found)
    for (const {path: other, kind, external} of outputs[file]?.imports ?? [])
      if (kind === 'import-statement' && !external) found.add(other);
  return found;
}

/** Reads chunks of one group together; what is imported from another group is imported from its file, under a name of its own there. */
function importGroups(folder: string, outputs: Outputs, groups: Groups, merged: ReadonlyMap<string, string>): Plugin {
  const exportsOf = new Map(Object.entries(outputs).map(([path, output]) => [basename(path), output.exports]));
  const nameOf = (chunk: string, name: string): string => `${basename(chunk, '.js').replaceAll('-', '_')}_${name}`;
  const names = (chunk: string): readonly string[] => exportsOf.get(chunk) ?? [];
  return {
    name: 'import-groups',
    setup(build) {
      build.onResolve({filter: /^group:/}, ({path}) => ({path: path.slice('group:'.length), namespace: 'group'}));
      build.onResolve({filter: /^\.\/.*\.js$/}, ({path, kind, importer, namespace}) => {
        const file = basename(path);
        const group = merged.get(file);
        if (group === undefined || kind === 'dynamic-import' || namespace === 'other') return {path, external: true};
        const within = namespace === 'group' ? basename(importer) : merged.get(basename(importer));
        return within === group ? {path: join(folder, file)} : {path: file, namespace: 'other'};
      });
      build.onLoad({filter: /./, namespace: 'group'}, ({path}) => ({
        contents: (groups.get(path) ?? [])
          .map(
            chunk =>
              `export {${names(chunk)
                .map(name => `${name} as ${nameOf(chunk, name)}`)
                .join()}} from './${chunk}';`,
          )
          .join('\n'),
        resolveDir: folder,
      }));
      build.onLoad({filter: /./, namespace: 'other'}, ({path}) => ({
        contents: `export {${names(path)
          .map(name => `${nameOf(path, name)} as ${name}`)
          .join()}} from './${merged.get(path)}';`,
        resolveDir: folder,
      }));
    },
  };
}

function mergedOutputs(outputs: Outputs, merged: ReadonlyMap<string, string>): Outputs {
  const result: Outputs = {};
  for (const [path, output] of Object.entries(outputs)) {
    const group = merged.get(basename(path));
    const into = group === undefined ? path : join(path, '..', group);
    const known = result[into];
    result[into] =
      known === undefined ? output : {...known, bytes: known.bytes + output.bytes, inputs: {...known.inputs, ...output.inputs}};
  }
  return result;
}
