import {expect, test} from 'vitest';
import {bundledPackages} from '../../tools/release/bundled-packages.ts';
import {sbom} from '../../tools/release/sbom.ts';

test('the bill of materials lists each bundled package and Bun, and no package that is only installed', () => {
  const {components, dependencies} = JSON.parse(sbom(new Date(0))) as {
    components: {name: string; version: string}[];
    dependencies: {ref: string; dependsOn: string[]}[];
  };
  const bundled = bundledPackages().map(folder => folder.replace(/.*node_modules\//, ''));
  expect(components.map(({name}) => name)).toEqual([...bundled, 'bun'].sort());
  expect(bundled).toEqual(expect.arrayContaining(['@kubernetes/client-node', '@oclif/core', 'execa', 'cli-table3']));
  const known = new Set(components.map(({name, version}) => `${name}@${version}`));
  expect(dependencies.flatMap(({dependsOn}) => dependsOn).filter(ref => !known.has(ref))).toEqual([]);
});
