/** The content as UTF-8 without a byte-order mark: PowerShell writes one into every redirected file, and version 5.1 writes UTF-16. */
export function withoutByteOrderMark(content: Buffer): Buffer {
  if (content[0] === 0xff && content[1] === 0xfe) return Buffer.from(content.toString('utf16le', 2), 'utf8');
  return content[0] === 0xef && content[1] === 0xbb && content[2] === 0xbf ? content.subarray(3) : content;
}
