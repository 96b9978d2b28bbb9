import {crc32, deflateRawSync} from 'node:zlib';

export interface ZipEntry {
  readonly name: string;
  readonly content: Buffer;
}

/** A zip file as Windows unpacks it (APPNOTE.TXT 4.3): names are ASCII, all is deflated, times are in UTC and have two seconds. */
export function zipOf(entries: readonly ZipEntry[], time: Date): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const entry of entries) {
    const packed = deflateRawSync(entry.content);
    const about = aboutEntry(entry, packed, time);
    const name = Buffer.from(entry.name, 'latin1');
    const local = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), about, name, packed]);
    directory.push(centralHeader(about, offset), name);
    parts.push(local);
    offset += local.length;
  }
  const central = Buffer.concat(directory);
  return Buffer.concat([...parts, central, endOfDirectory(entries.length, central.length, offset)]);
}

/** What both headers of a file say. */
function aboutEntry({name, content}: ZipEntry, packed: Buffer, time: Date): Buffer {
  const about = Buffer.alloc(26);
  about.writeUInt16LE(20, 0); // version needed
  about.writeUInt16LE(8, 4); // deflated
  about.writeUInt16LE((time.getUTCHours() << 11) | (time.getUTCMinutes() << 5) | (time.getUTCSeconds() >> 1), 6);
  about.writeUInt16LE(((time.getUTCFullYear() - 1980) << 9) | ((time.getUTCMonth() + 1) << 5) | time.getUTCDate(), 8);
  about.writeUInt32LE(crc32(content), 10);
  about.writeUInt32LE(packed.length, 14);
  about.writeUInt32LE(content.length, 18);
  about.writeUInt16LE(name.length, 22);
  return about;
}

function centralHeader(about: Buffer, offset: number): Buffer {
  const before = Buffer.from('PK\x01\x02\x14\x00', 'latin1');
  const after = Buffer.alloc(14);
  after.writeUInt32LE(offset, 10);
  return Buffer.concat([before, about, after]);
}

function endOfDirectory(count: number, size: number, offset: number): Buffer {
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(count, 8);
  end.writeUInt16LE(count, 10);
  end.writeUInt32LE(size, 12);
  end.writeUInt32LE(offset, 16);
  return end;
}
