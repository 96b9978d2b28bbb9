// The declarations of @peculiar/x509 use types of TypeScript's "dom" library, which this project does not load. @types/node has the same
// types under other names.
import type {webcrypto} from 'node:crypto';

declare global {
  type Algorithm = webcrypto.Algorithm;
  type AlgorithmIdentifier = webcrypto.AlgorithmIdentifier;
  type BufferSource = ArrayBuffer | ArrayBufferView;
  interface Crypto extends webcrypto.Crypto {}
  interface CryptoKey extends webcrypto.CryptoKey {}
  type CryptoKeyPair = webcrypto.CryptoKeyPair;
  type EcdsaParams = webcrypto.EcdsaParams;
  type EcKeyGenParams = webcrypto.EcKeyGenParams;
  type EcKeyImportParams = webcrypto.EcKeyImportParams;
  type KeyUsage = webcrypto.KeyUsage;
  type RsaHashedImportParams = webcrypto.RsaHashedImportParams;
}
