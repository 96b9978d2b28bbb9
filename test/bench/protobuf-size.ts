/**
 * How long an API object is in Kubernetes' protobuf, which kube-proxy reads: strings with a tag and a length, numbers and booleans in
 * two to six bytes, entries of maps as messages of their own. What managedFields hold is JSON in protobuf too. Within a few percent.
 */
export function protobufSize(value: unknown, field = ''): number {
  if (value === undefined || value === null) return 0;
  if (typeof value === 'boolean') return 2;
  if (typeof value === 'number') return 1 + varint(value);
  if (typeof value === 'string') return framed(Buffer.byteLength(value));
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + protobufSize(item, field), 0);
  if (field === 'fieldsV1') return framed(framed(Buffer.byteLength(JSON.stringify(value))));
  const entries = Object.entries(value);
  if (maps.includes(field)) return entries.reduce((sum, [key, text]) => sum + framed(protobufSize(key) + protobufSize(text)), 0);
  return framed(entries.reduce((sum, [name, part]) => sum + protobufSize(part, name), 0));
}

const maps = ['labels', 'annotations', 'selector'];

/** With its tag and its length. */
function framed(bytes: number): number {
  return 1 + varint(bytes) + bytes;
}

function varint(value: number): number {
  return value < 128 ? 1 : value < 16_384 ? 2 : value < 2_097_152 ? 3 : 5;
}
