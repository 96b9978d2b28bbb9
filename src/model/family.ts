/** An IP family, spelled as `spec.ipFamilies` and the `addressType` of an EndpointSlice spell it. */
export type Family = 'IPv4' | 'IPv6';

export const families: readonly Family[] = ['IPv4', 'IPv6'];
