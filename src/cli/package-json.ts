import {readFileSync} from 'node:fs';
import type {Interfaces} from '@oclif/core';
import {isBuilt} from './built-manifest.ts';
import {packageFile} from './package-file.ts';

/** The `package.json` of the program in this folder. */
export function packageJson(root: string): Interfaces.PJSON {
  return JSON.parse(isBuilt ? packageFile('package.json') : readFileSync(`${root}/package.json`, 'utf8'));
}
