// What the core imports of Node.js, oclif and js-yaml, as a browser has it: build.ts puts it in their place.
import {sha256} from '@noble/hashes/sha2.js';

// The trailing slash asks for the package in place of Node's own module.
export {Buffer} from 'buffer/';

/** The only form of `node:crypto`'s function that the core calls. WebCrypto would be asynchronous. */
export function hash(_algorithm: 'sha256', text: string, _encoding: 'binary'): string {
  return String.fromCharCode(...sha256(new TextEncoder().encode(text)));
}

/** What src/run throws for input that cannot be found or read. */
class CLIError extends Error {}

export const Errors = {CLIError};

/** js-yaml takes 58 KB, and the core asks it for files that no pasted text holds, and for objects beside rules, which go without. */
export function load(): never {
  throw new Error('YAML is not read here');
}

export function dump(): never {
  return load();
}

/** Pasted text holds no tables of Cilium, nor pods of its agents. */
export function withCilium(): never {
  throw new Error('pasted text holds no tables of Cilium');
}

export function askMap(): null {
  return null;
}

export function notInMap(): never {
  return withCilium();
}

export function agentAction(): never {
  return withCilium();
}

export const ciliumChecks: readonly never[] = [];

/** Nothing is promised without Services of the API. */
export function brokenPromises(): readonly never[] {
  return [];
}

export function besideUnreadCilium<T>(analysis: T): T {
  return analysis;
}

/** No object has a time that rules could be older than. */
export {besideUnreadCilium as withSince};

export function endpointsOf(): Map<string, never> {
  return new Map<string, never>();
}
