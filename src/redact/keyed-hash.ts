import {createHmac} from 'node:crypto';

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';

/** Pseudorandom bytes that depend only on a key, a purpose and a text: without the key, the text cannot be found by trying. */
export class KeyedHash {
  readonly #key: string | Uint8Array;

  constructor(key: string | Uint8Array) {
    this.#key = key;
  }

  /** 32 bytes. */
  bytes(purpose: string, text: string): Buffer {
    return createHmac('sha256', this.#key).update(`${purpose}\0${text}`).digest();
  }

  /** Up to 32 lower-case letters and digits, five bits each. */
  letters(purpose: string, text: string, count: number): string {
    return [...this.bytes(purpose, text).subarray(0, count)].map(byte => alphabet[byte & 31]).join('');
  }
}
