import {hash} from 'node:crypto';

/** sha256 in base32, the first 16 characters: how kube-proxy makes short names that do not collide. */
export function hash16(text: string): string {
  // A string with one character a byte: large clusters hash a million names, and as many Buffers would cost more than the hashing.
  const digest = hash('sha256', text, 'binary');
  return eightCharacters(digest, 0) + eightCharacters(digest, 5);
}

/** The first 8 of these characters, which names in nftables mode have. */
export function hash8(text: string): string {
  return eightCharacters(hash('sha256', text, 'binary'), 0);
}

/** Five bytes give eight characters; two numbers of 20 bits keep the arithmetic within 32 bits. */
function eightCharacters(digest: string, at: number): string {
  const middle = digest.charCodeAt(at + 2);
  const high = (digest.charCodeAt(at) << 12) | (digest.charCodeAt(at + 1) << 4) | (middle >> 4);
  const low = ((middle & 15) << 16) | (digest.charCodeAt(at + 3) << 8) | digest.charCodeAt(at + 4);
  return `${pairs[high >> 10]}${pairs[high & 1023]}${pairs[low >> 10]}${pairs[low & 1023]}`;
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** Ten bits as two characters. */
const pairs: readonly string[] = [...alphabet].flatMap(first => [...alphabet].map(second => first + second));
