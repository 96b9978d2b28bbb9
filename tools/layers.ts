// `npm run layers` writes the layers of the linter's configuration into the table of folders of docs/architecture.md.
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {edgeLayers, layers} from '../.dependency-cruiser.js';

export const architecturePage = join(import.meta.dirname, '../docs/architecture.md');

/** What each folder of src/ may import from, as the table says it. */
export const mayImport: Readonly<Record<string, string>> = {
  ...mapValues(edgeLayers, folders => [...named(folders.toReversed()), 'core'].join(', ')),
  ...mapValues(layers, folders => named(folders).join(', ')),
};

/** The page with the layers in the last cell of each row that begins with a folder. */
export function withLayers(page: string): string {
  return page.replaceAll(/^\| `(\w+)` \|(.*)\| [^|]*\|$/gm, (row, folder: string, content: string) => {
    const cell = mayImport[folder];
    return cell === undefined ? row : `| \`${folder}\` |${content}| ${cell === '' ? '' : `${cell} `}|`;
  });
}

function named(folders: readonly string[]): readonly string[] {
  return folders.map(folder => `\`${folder}\``);
}

function mapValues(
  record: Readonly<Record<string, readonly string[]>>,
  map: (values: readonly string[]) => string,
): Record<string, string> {
  return Object.fromEntries(Object.entries(record).map(([key, values]) => [key, map(values)]));
}

if (process.argv[1] === import.meta.filename) writeFileSync(architecturePage, withLayers(readFileSync(architecturePage, 'utf8')));
