import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {Ajv2020} from 'ajv/dist/2020.js';
import {execa} from 'execa';
import {describe, expect, test} from 'vitest';
import {krewManifestAt, releaseFolder, sha256, version} from './release-folder.ts';

const manifest = krewManifestAt(join(releaseFolder, 'krew-manifest.yaml'));
const sums = new Map(
  readFileSync(join(releaseFolder, 'checksums.txt'), 'utf8')
    .trim()
    .split('\n')
    .map(line => line.split('  ') as [string, string])
    .map(([sum, name]) => [name, sum]),
);

/** The first bytes of a program for each system, and those that name the processor. */
const formats: Readonly<Record<string, (program: Buffer) => boolean>> = {
  'linux amd64': program => isElf(program, 0x3e),
  'linux arm64': program => isElf(program, 0xb7),
  'darwin amd64': program => program.readUInt32LE(0) === 0xfeedfacf && program.readUInt32LE(4) === 0x01000007,
  'darwin arm64': program => program.readUInt32LE(0) === 0xfeedfacf && program.readUInt32LE(4) === 0x0100000c,
  'windows amd64': program => isPortableExecutable(program, 0x8664),
  'windows arm64': program => isPortableExecutable(program, 0xaa64),
};

function isElf(program: Buffer, machine: number): boolean {
  return program.readUInt32BE(0) === 0x7f454c46 && program.readUInt16LE(18) === machine;
}

function isPortableExecutable(program: Buffer, machine: number): boolean {
  const header = program.readUInt32LE(0x3c);
  return program.toString('latin1', 0, 2) === 'MZ' && program.readUInt16LE(header + 4) === machine;
}

async function contentOf(archive: string, file: string): Promise<Buffer> {
  const [program, args] = archive.endsWith('.zip') ? ['unzip', ['-p', archive, file]] : ['tar', ['-xzOf', archive, file]];
  return Buffer.from((await execa(program as string, args as string[], {encoding: 'buffer', maxBuffer: 1 << 29})).stdout);
}

describe.each(manifest.spec.platforms.map(platform => [platform.uri.split('/').at(-1) ?? '', platform] as const))(
  '%s',
  (name, platform) => {
    const archive = join(releaseFolder, name);

    test('has the checksum in the manifest for krew and in checksums.txt', () => {
      expect(platform.sha256).toBe(sha256(archive));
      expect(sums.get(name)).toBe(platform.sha256);
    });

    test('contains the executable for its system and processor, with the name in the manifest', async () => {
      const {os, arch} = platform.selector.matchLabels;
      expect(formats[`${os} ${arch}`]?.(await contentOf(archive, platform.bin))).toBe(true);
    });

    test('contains the licenses, the README, and the completion', async () => {
      expect((await contentOf(archive, 'LICENSE')).toString()).toContain('Apache License');
      const licenses = (await contentOf(archive, 'THIRD-PARTY-LICENSES.txt')).toString();
      expect(licenses).toMatch(/^@oclif\/core [\d.]+ \(MIT\)$/m);
      // What is in the runtime, and the license that asks for its text the most.
      expect(licenses).toMatch(/^\| \[`boringssl`\]/m);
      expect(licenses).toContain('GNU LIBRARY GENERAL PUBLIC LICENSE');
      expect((await contentOf(archive, 'README.md')).toString()).toMatch(/^# svc-trace/);
      for (const shell of ['bash', 'zsh', 'fish'])
        expect((await contentOf(archive, `svc-trace.${shell}`)).toString()).toContain('__complete');
      const completer = `kubectl_complete-svc_trace${platform.bin.endsWith('.exe') ? '.cmd' : ''}`;
      expect((await contentOf(archive, completer)).toString()).toContain('__complete');
    });
  },
);

test('the license of every bundled package is included', async () => {
  const text = (await contentOf(join(releaseFolder, `kubectl-svc-trace-${version}.tgz`), 'package/THIRD-PARTY-LICENSES.txt')).toString();
  const [, ...licenses] = text.split(`\n\n${'-'.repeat(80)}\n\n`);
  expect(licenses.length).toBeGreaterThan(30);
  expect(licenses.filter(license => license.length < 300).map(license => license.split('\n')[0])).toEqual([]);
});

test('the archive of manifests has all Kustomizations', async () => {
  const {stdout} = await execa('tar', ['-tzf', join(releaseFolder, `svc-trace_v${version}_deploy.tar.gz`)]);
  expect(stdout.split('\n')).toEqual(expect.arrayContaining(['deploy/kustomization.yaml', 'deploy/agents/daemonset.yaml']));
  expect(stdout).not.toMatch(/Dockerfile|chart/);
});

test('checksums.txt lists all downloads, and nothing else', () => {
  expect([...sums.keys()]).toEqual(
    [
      `kubectl-svc-trace-${version}.tgz`,
      'svc-trace.html',
      `svc-trace_v${version}.cdx.json`,
      `svc-trace_v${version}_deploy.tar.gz`,
      ...manifest.spec.platforms.map(({uri}) => uri.split('/').at(-1) ?? ''),
    ].sort(),
  );
  for (const [name, sum] of sums) expect(sha256(join(releaseFolder, name))).toBe(sum);
});

test('the bill of materials is a CycloneDX document of this version, with all dependencies', () => {
  const bom = JSON.parse(readFileSync(join(releaseFolder, `svc-trace_v${version}.cdx.json`), 'utf8'));
  const component = {
    type: 'object',
    required: ['type', 'name', 'version', 'purl'],
    properties: {version: {type: 'string', minLength: 1}, purl: {type: 'string', pattern: '^pkg:npm/'}},
  };
  // What CycloneDX 1.5 demands of these parts: https://cyclonedx.org/docs/1.5/json/
  const valid = new Ajv2020().compile({
    type: 'object',
    required: ['bomFormat', 'specVersion', 'serialNumber', 'version', 'metadata', 'components', 'dependencies'],
    properties: {
      bomFormat: {const: 'CycloneDX'},
      specVersion: {const: '1.5'},
      serialNumber: {pattern: '^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'},
      metadata: {type: 'object', required: ['timestamp', 'component'], properties: {component}},
      components: {type: 'array', items: component},
    },
  });
  expect(valid(bom), JSON.stringify(valid.errors)).toBe(true);
  expect(bom.metadata.component).toMatchObject({name: 'kubectl-svc-trace', version, type: 'application'});
  const names = (bom.components as {name: string}[]).map(({name}) => name);
  expect(names).toEqual(expect.arrayContaining(['bun', 'execa', 'js-yaml', 'ws']));
  expect(names).not.toContain('vitest');
});

test('the release notes are those of the changelog', () => {
  expect(readFileSync(join(releaseFolder, 'release-notes.md'), 'utf8')).toMatch(/^(### |- )/);
});
