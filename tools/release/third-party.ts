import {existsSync, globSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {bundledPackages} from './bundled-packages.ts';
import {bunVersion} from './platforms.ts';
import {root} from './run.ts';

/** The licenses of all packages that went into the bundle, as they ask for. dist/ must have been built. */
export function thirdPartyLicenses(): string {
  return [introduction, ...bundledPackages().map(licenseOf)].join(`\n\n${'-'.repeat(80)}\n\n`);
}

const introduction = `svc-trace is licensed under the Apache License 2.0 (LICENSE). It contains the packages below.

The executables contain the Bun runtime ${bunVersion} too: https://bun.com/docs/project/licensing (Bun itself is under the MIT License, and links
JavaScriptCore, which is under the GNU Library General Public License 2). The program itself is the npm package kubectl-svc-trace of the
same version, which runs on Node.js, and can be compiled again with another Bun: https://github.com/svc-trace/svc-trace, docs/release.md.`;

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
