import {createHash} from 'node:crypto';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import packageJson from '../../package.json' with {type: 'json'};
import {bundledPackages} from './bundled-packages.ts';
import {bunVersion} from './platforms.ts';
import {root, run} from './run.ts';

interface Bom {
  serialNumber?: string;
  metadata: {timestamp?: string; component?: object};
  components: Component[];
  dependencies: {ref: string; dependsOn?: string[]}[];
}

interface Component {
  readonly name: string;
  readonly version: string;
}

/**
 * What the release is made of, in CycloneDX: of npm's account of the dependencies those that went into the bundle, and the Bun of the
 * executables. client-node depends on much that is not part of the program. dist/ must have been built.
 */
export function sbom(time: Date): string {
  const bom = JSON.parse(run('npm', ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'], root)) as Bom;
  const bun = {
    ...{'bom-ref': `bun@${bunVersion}`, type: 'application', name: 'bun', version: bunVersion, scope: 'optional'},
    ...{description: 'the runtime in the executables', purl: `pkg:npm/bun@${bunVersion}`, licenses: [{license: {id: 'MIT'}}]},
  };
  const isBundled = bundled();
  const components = [...bom.components.filter(({name, version}) => isBundled(name, version)), bun].sort((a, b) =>
    a.name < b.name ? -1 : a.name > b.name ? 1 : 0,
  );
  const {name, version} = packageJson;
  const known = new Set(components.map(({name, version}) => `${name}@${version}`)).add(`${name}@${version}`);
  const dependencies = bom.dependencies
    .filter(({ref}) => known.has(ref))
    .map(({ref, dependsOn = []}) => ({ref, dependsOn: dependsOn.filter(other => known.has(other))}));
  // npm gives it the name of the folder.
  const component = {...bom.metadata.component, type: 'application', name, purl: `pkg:npm/${name}@${version}`};
  const metadata = {...bom.metadata, component, timestamp: time.toISOString()};
  return `${JSON.stringify({...bom, serialNumber: serialNumber(components), metadata, components, dependencies}, null, 2)}\n`;
}

function bundled(): (name: string, version: string) => boolean {
  const packages = new Set(
    bundledPackages().map(folder => {
      const {name, version} = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as Component;
      return `${name}@${version}`;
    }),
  );
  return (name, version) => packages.has(`${name}@${version}`);
}

/** A UUID (version 5 in form) of what is listed, where npm makes up another one each time. */
function serialNumber(components: readonly object[]): string {
  const hex = createHash('sha256').update(packageJson.version).update(JSON.stringify(components)).digest('hex');
  return `urn:uuid:${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
