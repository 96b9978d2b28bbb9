import {createHash} from 'node:crypto';
import packageJson from '../../package.json' with {type: 'json'};
import {bunVersion} from './platforms.ts';
import {root, run} from './run.ts';

interface Bom {
  serialNumber?: string;
  metadata: {timestamp?: string; component?: object};
  components: {name: string}[];
}

/** What the release is made of, in CycloneDX: npm's account of the dependencies, and the Bun of the executables. */
export function sbom(time: Date): string {
  const bom = JSON.parse(run('npm', ['sbom', '--sbom-format', 'cyclonedx', '--omit', 'dev', '--package-lock-only'], root)) as Bom;
  const bun = {
    ...{'bom-ref': `bun@${bunVersion}`, type: 'application', name: 'bun', version: bunVersion, scope: 'optional'},
    ...{description: 'the runtime in the executables', purl: `pkg:npm/bun@${bunVersion}`, licenses: [{license: {id: 'MIT'}}]},
  };
  const components = [...bom.components, bun].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const {name, version} = packageJson;
  // npm gives it the name of the folder.
  const component = {...bom.metadata.component, type: 'application', name, purl: `pkg:npm/${name}@${version}`};
  const metadata = {...bom.metadata, component, timestamp: time.toISOString()};
  return `${JSON.stringify({...bom, serialNumber: serialNumber(components), metadata, components}, null, 2)}\n`;
}

/** A UUID (version 5 in form) of what is listed, where npm makes up another one each time. */
function serialNumber(components: readonly object[]): string {
  const hex = createHash('sha256').update(packageJson.version).update(JSON.stringify(components)).digest('hex');
  return `urn:uuid:${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
