// @peculiar/x509 takes its types from the browser's library of TypeScript, which this project does not load. Node.js has the same ones
// under other names.
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
