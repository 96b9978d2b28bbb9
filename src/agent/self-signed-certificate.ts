// @peculiar/x509 uses decorators, which need this module first.
import 'reflect-metadata';
import {webcrypto} from 'node:crypto';
import {isIP} from 'node:net';
import * as x509 from '@peculiar/x509';

const algorithm = {name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256'} as const;

/** In milliseconds. A certificate is valid from an hour ago, because clocks differ. */
const [hour, year] = [3_600_000, 365 * 24 * 3_600_000];

/**
 * A self-signed certificate for these names and addresses, valid for a year. Clients cannot verify it. `node:crypto` does not create
 * certificates. `now` is in milliseconds since 1970.
 */
export async function selfSignedCertificate(names: readonly string[], now: number): Promise<KeyPair> {
  x509.cryptoProvider.set(webcrypto);
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: 'CN=svc-trace-agent',
    notBefore: new Date(now - hour),
    notAfter: new Date(now + year),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(names.map(value => ({type: isIP(value) === 0 ? ('dns' as const) : ('ip' as const), value}))),
    ],
  });
  const key = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey);
  return {cert: certificate.toString('pem'), key: x509.PemConverter.encode(key, 'PRIVATE KEY')};
}

/** A certificate, with those of its authorities after it, and its private key, as PEM. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}
