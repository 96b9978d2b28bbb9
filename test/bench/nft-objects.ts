import type {Family} from './model.ts';

/** The objects of `nft -j list ruleset`, as nft 1.0.6 prints them: what is in the list beside `metainfo`. */

/** A statement or an expression. */
export type Json = string | number | null | readonly Json[] | {readonly [name: string]: Json};

/** An element of a map or set. */
export interface Element {
  readonly set: string;
  readonly entry: Json;
}

export function ipWord(family: Family): 'ip' | 'ip6' {
  return family === 'IPv4' ? 'ip' : 'ip6';
}

export function rule(chain: string, expr: readonly Json[], comment?: string): Json {
  return {rule: {...table, chain, handle: 1, ...(comment === undefined ? {} : {comment}), expr}};
}

/** Of any family: `inFamily` puts in which. */
const table = {family: '', table: 'kube-proxy'};

export function inFamily(object: Json, family: Family): string {
  return JSON.stringify(object)
    .replace('"family":""', `"family":"${ipWord(family)}"`)
    .replace(/"(?:[^"\\]|\\.)*"|[:,]/g, part => (part.length === 1 ? `${part} ` : part));
}

export function baseChain(name: string, [type, hook, prio]: readonly [type: string, hook: string, priority: number]): Json {
  return {chain: {...table, name, handle: 1, type, hook, prio, policy: 'accept'}};
}

export function plainChain(name: string): Json {
  return {chain: {...table, name, handle: 1}};
}

export function setOf(name: string, type: Json, entries: readonly Json[]): Json {
  return {set: {family: '', name, table: 'kube-proxy', type, handle: 1, ...elements(entries)}};
}

export function affinitySet(name: string, type: Json, timeout: number): Json {
  return {set: {family: '', name, table: 'kube-proxy', type, handle: 1, size: 65535, flags: ['timeout'], timeout}};
}

export function verdictMap(name: string, type: Json, entries: readonly Json[]): Json {
  return {map: {family: '', name, table: 'kube-proxy', type, handle: 1, map: 'verdict', ...elements(entries)}};
}

function elements(elem: readonly Json[]): {readonly elem?: readonly Json[]} {
  return elem.length === 0 ? {} : {elem};
}

export function payload(protocol: string, field: string): Json {
  return {payload: {protocol, field}};
}

export const l4proto: Json = {meta: {key: 'l4proto'}};

export function match(left: Json, right: Json, op = '=='): Json {
  return {match: {op, left, right}};
}

export function prefix(cidr: string): Json {
  const [addr = '', len] = cidr.split('/');
  return {prefix: {addr, len: Number(len)}};
}

export function jump(target: string): Json {
  return {jump: {target}};
}

export function goTo(target: string): Json {
  return {goto: {target}};
}

export function vmap(key: Json, data: Json): Json {
  return {vmap: {key, data}};
}

export function concat(...parts: readonly Json[]): Json {
  return {concat: parts};
}
