import {hash} from 'node:crypto';

/** sha256 in base32, the first 16 characters: kube-proxy's way to short names that do not collide. */
export function hash16(text: string): string {
  const digest = hash('sha256', text, 'buffer');
  let result = '';
  for (let at = 0; at < 10; at += 5) {
    // Five bytes are eight characters; two numbers of 20 bits keep the arithmetic within 32 bits.
    const high = ((digest[at] ?? 0) << 12) | ((digest[at + 1] ?? 0) << 4) | ((digest[at + 2] ?? 0) >> 4);
    const low = (((digest[at + 2] ?? 0) & 15) << 16) | ((digest[at + 3] ?? 0) << 8) | (digest[at + 4] ?? 0);
    for (const part of [high, low]) for (let shift = 15; shift >= 0; shift -= 5) result += alphabet[(part >> shift) & 31];
  }
  return result;
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
