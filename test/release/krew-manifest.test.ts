import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {load} from 'js-yaml';
import {describe, expect, test} from 'vitest';
import {krewManifest} from '../../tools/release/krew-manifest.ts';
import {archiveName, platforms} from '../../tools/release/platforms.ts';
import {type KrewManifest, krewManifestAt, version} from '../package/release-folder.ts';

const file = join(import.meta.dirname, '../../krew-manifest.yaml');
const template = readFileSync(file, 'utf8');
const {apiVersion, kind, metadata, spec} = krewManifestAt(file);

// https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/, and what krew's own validation (internal/index/validation) refuses.
describe('krew-manifest.yaml', () => {
  test('is a plugin manifest', () => {
    expect({apiVersion, kind}).toEqual({apiVersion: 'krew.googlecontainertools.github.com/v1alpha2', kind: 'Plugin'});
    expect(Object.keys(spec).sort()).toEqual(['caveats', 'description', 'homepage', 'platforms', 'shortDescription', 'version']);
  });

  test('has a name that krew allows, and that makes kubectl-svc_trace the executable', () => {
    expect(metadata.name).toMatch(/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/);
    expect(`kubectl-${metadata.name.replaceAll('-', '_')}`).toBe('kubectl-svc_trace');
  });

  test('has the version of the package, with a v', () => {
    expect(spec.version).toBe(`v${version}`);
  });

  test('describes it in one short line, without "kubectl" or a full stop, and in lines that fit', () => {
    expect(spec.shortDescription).toMatch(/^[A-Z].{0,49}[^.]$/);
    expect(spec.shortDescription).not.toMatch(/kubectl|plugin/i);
    expect(spec.description.split('\n').filter(line => line.length > 80)).toEqual([]);
    expect(spec.homepage).toMatch(/^https:\/\//);
  });

  test('has one archive for each platform', () => {
    expect(spec.platforms.map(({uri}) => uri.split('/').at(-1))).toEqual(platforms.map(platform => archiveName(platform, version)));
    expect(spec.platforms.map(({selector}) => selector.matchLabels)).toEqual(platforms.map(({os, arch}) => ({os, arch})));
  });

  test.each(spec.platforms.map(platform => [platform.uri.split('/').at(-1), platform] as const))(
    '%s: has its URL, its checksum, and its executable',
    (_, {uri, sha256, bin, files, selector}) => {
      expect(uri).toMatch(new RegExp(`^https://github\\.com/svc-trace/svc-trace/releases/download/v${version}/[\\w.-]+\\.(tar\\.gz|zip)$`));
      expect(sha256).toMatch(/^[0-9a-f]{64}$/);
      // krew refuses any other on Windows, and a bin that leads out of the archive.
      expect(bin).toBe(selector.matchLabels.os === 'windows' ? 'kubectl-svc_trace.exe' : 'kubectl-svc_trace');
      expect(files).toBeUndefined();
    },
  );
});

describe('the manifest of a release', () => {
  const sums = new Map(platforms.map((platform, index) => [archiveName(platform, '1.2.3-rc.1'), String(index).repeat(64)]));

  test('has its version and the checksums of its archives', () => {
    const {spec: released} = load(krewManifest(template, '1.2.3-rc.1', sums)) as KrewManifest;
    expect(released.version).toBe('v1.2.3-rc.1');
    expect(released.platforms.map(({uri, sha256}) => [uri.split('/').slice(-2), sha256])).toEqual(
      [...sums].map(([archive, sum]) => [['v1.2.3-rc.1', archive], sum]),
    );
    expect(released.caveats).toContain('/store/svc-trace/v1.2.3-rc.1/');
    expect(released.description).toBe(spec.description);
  });

  test('is not written if an archive is missing', () => {
    expect(() => krewManifest(template, '1.2.3', sums)).toThrow('names svc-trace_v1.2.3_linux_amd64.tar.gz, which was not made');
  });
});
