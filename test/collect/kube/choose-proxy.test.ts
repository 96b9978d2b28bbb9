import {expect, test} from 'vitest';
import {chooseProxy} from '../../../src/collect/kube/choose-proxy.ts';

const through = (server: string, environment: NodeJS.ProcessEnv, proxyUrl?: string) =>
  chooseProxy(new URL(server), proxyUrl, environment)?.href ?? null;

test('proxy-url overrides the environment, even for this machine', () => {
  expect(through('https://127.0.0.1:6443', {HTTPS_PROXY: 'http://env:1'}, 'http://file:2')).toBe('http://file:2/');
});

test('HTTPS_PROXY is for https and HTTP_PROXY for http, in upper or lower case', () => {
  expect(through('https://a', {HTTPS_PROXY: 'http://s:1', HTTP_PROXY: 'http://p:1'})).toBe('http://s:1/');
  expect(through('http://a', {HTTPS_PROXY: 'http://s:1', http_proxy: 'http://p:1'})).toBe('http://p:1/');
});

test.each(['ftp://ann:hush@proxy', 'http://ann:hu/sh@pro xy', 'ann:hush@proxy:3128'])('the error about %s has no password', url => {
  expect(() => through('https://a', {}, url)).toThrow(/^proxy-url is "[^"]*pro ?xy(?::3128)?", and must be a URL/);
  expect(() => through('https://a', {}, url)).not.toThrow(/hu.?sh/);
});

test('a proxy without a scheme is an HTTP proxy', () => {
  expect(through('https://a', {HTTPS_PROXY: 'proxy:3128'})).toBe('http://proxy:3128/');
});

test('this machine is reached directly, whatever the environment', () => {
  for (const host of ['localhost', '127.0.0.1', '[::1]']) expect(through(`https://${host}:6443`, {HTTPS_PROXY: 'http://p:1'})).toBeNull();
});

test.each([
  ['*', 'https://a.example', true],
  ['example', 'https://a.example', true],
  ['a.example', 'https://a.example', true],
  ['.a.example', 'https://a.example', false],
  ['.example', 'https://a.example', true],
  ['*.example', 'https://a.example', true],
  ['xample', 'https://a.example', false],
  ['a.example:443', 'https://a.example', true],
  ['a.example:6443', 'https://a.example', false],
  ['b.example, A.EXAMPLE', 'https://a.example', true],
  ['10.0.0.0/8', 'https://10.1.2.3:6443', true],
  ['10.0.0.0/8', 'https://11.1.2.3:6443', false],
  ['10.1.2.3', 'https://10.1.2.3:6443', true],
  ['10.1.2.3:6443', 'https://10.1.2.3:6443', true],
  ['fd00::/8', 'https://[fd00::1]:6443', true],
  ['fd00::1', 'https://[fd00::1]:6443', true],
  ['nonsense/33', 'https://10.1.2.3:6443', false],
])('NO_PROXY=%s makes an exception of %s: %s', (exceptions, server, excepted) => {
  expect(through(server, {HTTPS_PROXY: 'http://p:1', NO_PROXY: exceptions})).toBe(excepted ? null : 'http://p:1/');
});
