import {existsSync, globSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {bunLicensePage} from './bun.ts';
import {bundledPackages} from './bundled-packages.ts';
import {bunVersion} from './platforms.ts';
import {root} from './run.ts';

const rule = `\n\n${'-'.repeat(80)}\n\n`;

/** The licenses of all packages that went into a bundle, by default dist/, as they ask for. */
export function thirdPartyLicenses(packages = bundledPackages()): string {
  return [introduction, ...packages.map(licenseOf)].join(rule);
}

const introduction = 'svc-trace is licensed under the Apache License 2.0 (LICENSE). It contains the packages below.';

/** Those, and the licenses of Bun and of what Bun consists of. */
export async function executableLicenses(): Promise<string> {
  const page = (await bunLicensePage()).trim();
  return [thirdPartyLicenses(), `${aboutBun}\n\n${page}`, ...licensesInBun.map(licenseText)].join(rule);
}

const aboutBun = `The executables also contain the Bun runtime ${bunVersion} from the npm packages @oven/bun-*. The program in them is the npm package
kubectl-svc-trace of the same version, which runs on Node.js, and can be compiled again with another Bun:
https://github.com/svc-trace/svc-trace, docs/dev/release.md. This is Bun's own page about its licenses. The texts of those that it names follow.`;

/** By their SPDX identifiers. A new Bun may name others: docs/dev/release.md. */
const licensesInBun = [
  ...['MIT', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'Zlib', 'ICU', 'IJG', 'libpng-2.0', 'OpenSSL'],
  ...['LGPL-2.0-or-later', 'LGPL-2.1-or-later'],
];

function licenseText(id: string): string {
  const file = join(root, `node_modules/spdx-license-list/licenses/${id}.json`);
  const {name, licenseText: text}: {name: string; licenseText: string} = JSON.parse(readFileSync(file, 'utf8'));
  return `${name} (${id})\n\n${text.trim()}`;
}

function licenseOf(folder: string): string {
  const {name, version, license} = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
  const file = globSync('{LICENSE,LICENCE,License,license,licence,COPYING}*', {cwd: join(root, folder)}).sort()[0];
  const text = file === undefined ? fromReadme(folder) : readFileSync(join(root, folder, file), 'utf8');
  return `${name} ${version} (${typeof license === 'string' ? license : license?.type})\n\n${text.trim()}`;
}

/** Some packages have it at the end of their README, others name it only. */
function fromReadme(folder: string): string {
  const readme = join(root, folder, 'README.md');
  return existsSync(readme) ? (/^#+ licen[cs]e\s+([\s\S]+)/im.exec(readFileSync(readme, 'utf8'))?.[1] ?? '') : '';
}
