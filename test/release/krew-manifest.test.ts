import {readFileSync} from 'node:fs';
import {load} from 'js-yaml';
import {describe, expect, test} from 'vitest';
import {krewManifest, krewName} from '../../tools/release/krew-manifest.ts';
import {archiveName, platforms} from '../../tools/release/platforms.ts';
import type {KrewManifest} from '../package/release-folder.ts';

const version = '1.2.3-rc.1';
const sums = new Map(platforms.map((platform, index) => [archiveName(platform, version), String(index).repeat(64)]));

// What krew refuses (internal/index/validation, cmd/validate-krew-manifest), and what reviewers of krew-index ask for.
describe.each([krewName, 'service-trace'])('the manifest for krew of the plugin %s', name => {
  const {apiVersion, kind, metadata, spec} = load(krewManifest(version, sums, name)) as KrewManifest;

  test('is a plugin manifest with a name of lower-case words, and a version of SemVer after a v', () => {
    expect({apiVersion, kind, metadata}).toEqual({
      apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
      kind: 'Plugin',
      metadata: {name},
    });
    expect(name).toMatch(/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/);
    expect(spec.version).toBe('v1.2.3-rc.1');
  });

  test('describes it in 50 characters, without a full stop or "kubectl", and in lines of 80', () => {
    expect(spec.shortDescription).toMatch(/^[A-Z].{0,48}[^.]$/);
    expect(spec.shortDescription).not.toMatch(/kubectl|plugin/i);
    expect([spec.description, spec.caveats].flatMap(text => text.split('\n')).filter(line => line.length > 80)).toEqual([]);
    expect(spec.homepage).toMatch(/^https:\/\//);
  });

  test('has each platform once, by os and arch alone, with its archive, checksum and executable', () => {
    expect(spec.platforms.map(({selector}) => selector.matchLabels)).toEqual(
      ['linux', 'darwin', 'windows'].flatMap(os => ['amd64', 'arm64'].map(arch => ({os, arch}))),
    );
    for (const {uri, sha256, bin, files, selector} of spec.platforms) {
      expect(uri).toMatch(/^https:\/\/github\.com\/svc-trace\/svc-trace\/releases\/download\/v1\.2\.3-rc\.1\/[\w.-]+\.(tar\.gz|zip)$/);
      expect(sha256).toBe(sums.get(uri.split('/').at(-1) ?? ''));
      expect(sha256).toMatch(/^[0-9a-f]{64}$/);
      expect(bin).toBe(selector.matchLabels.os === 'windows' ? 'kubectl-svc_trace.exe' : 'kubectl-svc_trace');
      // Everything in the archive is extracted then, the LICENSE too (test/package/archives.test.ts).
      expect(files).toBeUndefined();
    }
  });

  test('names commands and paths by the name of the plugin', () => {
    expect(spec.caveats).toContain(`"kubectl ${name} access"`);
    expect(spec.caveats).toContain(`\n  ln -s ../store/${name}/v1.2.3-rc.1/kubectl_complete-svc_trace \\\n`);
    expect(spec.caveats).toContain(`/bin/kubectl_complete-${name.replace('-', '_')}"\n`);
  });
});

test('the manifest for krew is not written if an archive is missing', () => {
  expect(() => krewManifest('1.2.3', sums)).toThrow('there is no checksum of svc-trace_v1.2.3_linux_amd64.tar.gz');
});

test('the manifest of the checkout is this one, with sums that a release replaces', () => {
  const own = readFileSync(new URL('../../krew-manifest.yaml', import.meta.url), 'utf8');
  const {version: current} = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {readonly version: string};
  const placeholders = new Map(platforms.map(platform => [archiveName(platform, current), '0'.repeat(64)]));
  expect(own.replace(/^#.*\n/, '')).toBe(krewManifest(current, placeholders));
});
