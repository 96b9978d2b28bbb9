import {createHmac} from 'node:crypto';

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';

/** Bytes that look random and depend on a key, a purpose and a text alone: who has not the key cannot tell the text by trying. */
export class KeyedHash {
  readonly #key: string | Uint8Array;

  constructor(key: string | Uint8Array) {
    this.#key = key;
  }

  /** 32 bytes. */
  bytes(purpose: string, text: string): Buffer {
    return createHmac('sha256', this.#key).update(`${purpose}\0${text}`).digest();
  }

  /** Up to 32 letters and digits in lower case, five bits each. */
  letters(purpose: string, text: string, count: number): string {
    return [...this.bytes(purpose, text).subarray(0, count)].map(byte => alphabet[byte & 31]).join('');
  }
}
