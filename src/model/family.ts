/** An IP family, spelled as in `spec.ipFamilies` and in the `addressType` of an EndpointSlice. */
export type Family = 'IPv4' | 'IPv6';

export const families: readonly Family[] = ['IPv4', 'IPv6'];
