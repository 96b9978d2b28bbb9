import {createPrivateKey, X509Certificate} from 'node:crypto';
import {copyFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterEach, beforeEach, describe, expect, test} from 'vitest';
import {type KeyPair, selfSignedCertificate} from '../../src/agent/self-signed-certificate.ts';
import {ServingCertificate} from '../../src/agent/serve-agent.ts';
import {certificate, certificateFile} from '../stand-in/certificates.ts';

const day = 24 * 3_600_000;
let folder = '';
let files = {cert: '', key: ''};

/** As kubelet mounts a Secret: links to what `..data` links to. */
function mount(name: 'server' | 'elsewhere', version: string): void {
  mkdirSync(join(folder, version));
  copyFileSync(certificateFile(`${name}.crt`), join(folder, version, 'tls.crt'));
  copyFileSync(certificateFile(`${name}.key`), join(folder, version, 'tls.key'));
  symlinkSync(version, join(folder, '..data_tmp'));
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-trace-tls-'));
  files = {cert: join(folder, 'tls.crt'), key: join(folder, 'tls.key')};
  mount('server', '1');
  symlinkSync('..data/tls.crt', files.cert);
  symlinkSync('..data/tls.key', files.key);
});
afterEach(() => rmSync(folder, {recursive: true}));

/** Runs as many rounds as there are changes, each made before a round; resolves to what came of them. */
async function followed(changes: readonly (() => void)[], {clock = {time: 0}, given = files as typeof files | null} = {}) {
  const [changed, troubles]: [KeyPair[], string[]] = [[], []];
  const left = [...changes, () => controller.abort(new Error('over'))];
  const controller = new AbortController();
  const ticking = {
    now: () => clock.time,
    sleep: async () => {
      left.shift()?.();
      controller.signal.throwIfAborted();
    },
  };
  const serving = await ServingCertificate.open({files: given, names: ['node-a'], clock: ticking});
  const run = serving.follow({onChange: pair => changed.push(pair), onTrouble: text => troubles.push(text)}, controller.signal);
  await expect(run).rejects.toThrow('over');
  return {serving, changed, troubles};
}

describe('a certificate in files', () => {
  test('is read again when the mounted Secret changes', async () => {
    const {serving, changed, troubles} = await followed([() => {}, () => mount('elsewhere', '2'), () => {}]);
    expect(changed).toEqual([{cert: certificate('elsewhere.crt'), key: certificate('elsewhere.key')}]);
    expect(serving.current).toEqual(changed[0]);
    expect(troubles).toEqual([]);
  });

  test('stays in use while the new one is invalid, which is reported once', async () => {
    const {serving, changed, troubles} = await followed([
      () => copyFileSync(certificateFile('elsewhere.crt'), join(folder, '1/tls.crt')),
      () => {},
      () => rmSync(join(folder, '1/tls.key')),
      () => copyFileSync(certificateFile('elsewhere.key'), join(folder, '1/tls.key')),
    ]);
    expect(troubles).toEqual([
      `the key in ${files.key} is not that of the certificate in ${files.cert}`,
      expect.stringContaining('no such file'),
    ]);
    expect(changed).toHaveLength(1);
    expect(new X509Certificate(serving.current.cert).subjectAltName).toBe('DNS:elsewhere.example');
  });

  test.each<[string, () => void, string | RegExp]>([
    ['is not there', () => rmSync(files.cert), /no such file/],
    ['is none', () => writeFileSync(files.cert, 'hello'), /tls\.crt contains no certificate \(PEM\)/],
    ['has no key', () => writeFileSync(files.key, 'hello'), /tls\.key contains no private key without a password \(PEM\)/],
    ['has another key', () => copyFileSync(certificateFile('client.key'), files.key), /the key in \S+ is not that of the certificate in/],
  ])('is refused at the start if it %s', async (_, spoil, reason) => {
    spoil();
    const clock = {now: () => 0, sleep: async () => {}};
    await expect(ServingCertificate.open({files, names: [], clock})).rejects.toThrow(reason);
  });
});

describe('a self-signed certificate', () => {
  const now = Date.parse('2026-03-01T12:00:00Z');

  test('is good for a year, for the names and addresses of the node', async () => {
    const {cert, key} = await selfSignedCertificate(['node-a', 'localhost', '127.0.0.1', 'fd00::7'], now);
    const read = new X509Certificate(cert);
    expect(read.subjectAltName).toBe('DNS:node-a, DNS:localhost, IP Address:127.0.0.1, IP Address:FD00:0:0:0:0:0:0:7');
    expect([read.validFromDate.toISOString(), read.validToDate.toISOString()]).toEqual([
      '2026-03-01T11:00:00.000Z',
      '2027-03-01T12:00:00.000Z',
    ]);
    expect(read.checkPrivateKey(createPrivateKey(key))).toBe(true);
    expect(read.verify(read.publicKey)).toBe(true);
    expect({isAuthority: read.ca, uses: read.keyUsage}).toEqual({isAuthority: false, uses: ['1.3.6.1.5.5.7.3.1']});
  });

  test('is different each time', async () => {
    const [a, b] = await Promise.all([selfSignedCertificate(['a'], now), selfSignedCertificate(['a'], now)]);
    expect(new X509Certificate(a.cert).serialNumber).not.toBe(new X509Certificate(b.cert).serialNumber);
    expect(a.key).not.toBe(b.key);
  });

  test('is renewed a month before it expires', async () => {
    const clock = {time: now};
    const pass = (days: number) => () => {
      clock.time += days * day;
    };
    const {serving, changed} = await followed([pass(334), pass(2), pass(1)], {clock, given: null});
    expect(changed).toHaveLength(1);
    expect(serving.notAfter).toBe(now + (334 + 2 + 365) * day);
  });
});
