// `npm run release` builds a release into release/ (docs/dev/release.md). `compile` and `pack` can be run alone: macOS executables are signed
// between them, on a Mac.
import {createHash} from 'node:crypto';
import {chmodSync, copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join, relative, resolve} from 'node:path';
import process from 'node:process';
import {parseArgs} from 'node:util';
import packageJson from '../package.json' with {type: 'json'};
import {pack} from './release/archive.ts';
import {compile, executablePath} from './release/compile.ts';
import {givenDigests, writeManifests} from './release/deploy-files.ts';
import {krewManifest} from './release/krew-manifest.ts';
import {packNpm} from './release/npm-package.ts';
import {archiveName, executableName, type Platform, platformName, platforms} from './release/platforms.ts';
import {releaseNotes} from './release/release-notes.ts';
import {root, run} from './release/run.ts';
import {sbom} from './release/sbom.ts';
import {executableLicenses} from './release/third-party.ts';
import {tryPage} from './try/build.ts';

const help = `Usage: npm run release -- [compile|pack|npm] [--platform NAME]... [--output FOLDER]

Builds a release into FOLDER (docs/dev/release.md).

  compile            build the executables only
  pack               make packages and archives of executables that are built
  npm                build and pack the npm package only
  --platform NAME    one platform, repeatable: ${platforms.map(platformName).join(', ')}
  --output FOLDER    default: release
  --help             print this help
`;

const {values, positionals} = commandLine();
const {version} = packageJson;
const output = resolve(values.output);
const executables = join(output, 'executables');
const chosen = platforms.filter(platform => values.platform?.includes(platformName(platform)) ?? true);

const [half] = positionals;
if (half === undefined || half === 'compile') {
  rmSync(output, {recursive: true, force: true});
  run(process.execPath, ['tools/build.ts']);
  say(`compiling ${chosen.map(platformName).join(', ')}`);
  await compile(executables, chosen);
}
if (half === 'npm') {
  run(process.execPath, ['tools/build.ts']);
  mkdirSync(output, {recursive: true});
  packNpm(output);
}
if (half === undefined || half === 'pack') {
  say('packing');
  const time = buildTime();
  packNpm(output);
  const licenses = await executableLicenses();
  for (const platform of chosen) await packExecutable(platform, licenses, time);
  await packManifests(time);
  writeFileSync(join(output, `svc-trace_v${version}.cdx.json`), sbom(time));
  writeFileSync(join(output, 'svc-trace.html'), await tryPage());
  writeFileSync(join(output, 'release-notes.md'), releaseNotes(text('CHANGELOG.md'), version));
  const sums = new Map(released().map(name => [name, sumOf(name)]));
  writeFileSync(join(output, 'checksums.txt'), [...sums].map(([name, sum]) => `${sum}  ${name}\n`).join(''));
  // Part of the platforms is for trying it out; a manifest is for a release.
  if (chosen.length === platforms.length) writeFileSync(join(output, 'krew-manifest.yaml'), krewManifest(version, sums));
}

/** Ends the process with the help, or with an error (2) where the command line is wrong. */
function commandLine() {
  try {
    const parsed = parseArgs({
      allowPositionals: true,
      options: {
        help: {type: 'boolean', short: 'h'},
        output: {type: 'string', default: join(root, 'release')},
        platform: {type: 'string', multiple: true},
      },
    });
    if (parsed.values.help) {
      process.stdout.write(help);
      process.exit(0);
    }
    const unknown = [
      ...parsed.positionals.filter(word => !['compile', 'pack', 'npm'].includes(word)),
      ...unknownPlatforms(parsed.values.platform),
    ];
    if (unknown.length > 0) throw new Error(`unknown: ${unknown.join(', ')}`);
    return parsed;
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${help}`);
    process.exit(2);
  }
}

function unknownPlatforms(names: readonly string[] = []): readonly string[] {
  return names.filter(name => !platforms.some(platform => platformName(platform) === name));
}

async function packExecutable(platform: Platform, licenses: string, time: Date): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-pack-'));
  const put = (name: string, write: (path: string) => void, mode: number) => {
    write(join(folder, name));
    chmodSync(join(folder, name), mode);
  };
  try {
    put(executableName(platform), path => copyFileSync(executablePath(executables, platform), path), 0o755);
    const completer = platform.os === 'windows' ? 'kubectl_complete-svc_trace.cmd' : 'kubectl_complete-svc_trace';
    put(completer, path => copyFileSync(join(root, 'tools/release', completer), path), 0o755);
    for (const name of ['LICENSE', 'README.md', 'CHANGELOG.md']) put(name, path => copyFileSync(join(root, name), path), 0o644);
    put('THIRD-PARTY-LICENSES.txt', path => writeFileSync(path, licenses), 0o644);
    for (const name of readdirSync(join(root, 'completion'))) put(name, path => copyFileSync(join(root, 'completion', name), path), 0o644);
    await pack({folder, files: readdirSync(folder), archive: join(output, archiveName(platform, version)), time});
  } finally {
    rmSync(folder, {recursive: true});
  }
}

async function packManifests(time: Date): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-deploy-'));
  try {
    writeManifests(join(folder, 'deploy'), givenDigests());
    const entries = readdirSync(folder, {recursive: true, withFileTypes: true}).filter(entry => entry.isFile());
    const files = entries.map(({parentPath, name}) => relative(folder, join(parentPath, name)));
    await pack({folder, files, archive: join(output, `svc-trace_v${version}_deploy.tar.gz`), time});
  } finally {
    rmSync(folder, {recursive: true});
  }
}

/** What is offered for download, sorted. */
function released(): readonly string[] {
  return readdirSync(output)
    .filter(name => /\.(?:tgz|tar\.gz|zip|cdx\.json|html)$/.test(name))
    .sort();
}

function sumOf(name: string): string {
  return createHash('sha256')
    .update(readFileSync(join(output, name)))
    .digest('hex');
}

/** That of the commit, so that everybody who builds it gets the same: https://reproducible-builds.org/docs/source-date-epoch */
function buildTime(): Date {
  return new Date(Number(process.env['SOURCE_DATE_EPOCH'] ?? run('git', ['log', '-1', '--format=%ct'])) * 1000);
}

function text(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

function say(what: string): void {
  process.stderr.write(`${what}\n`);
}
