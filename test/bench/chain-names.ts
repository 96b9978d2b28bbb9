import {hash} from 'node:crypto';
import type {Endpoint, Family, Service, ServicePort} from './model.ts';

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** What kube-proxy calls a Service port, in comments and in chain names. */
export function servicePortName(service: Service, port: ServicePort): string {
  const name = `${service.namespace}/${service.name}`;
  return port.name === '' ? name : `${name}:${port.name}`;
}

/** The 16 characters that all chains of a Service port share. */
export function servicePortHash(name: string, port: ServicePort): string {
  return chainHash(name + port.protocol.toLowerCase());
}

export function endpointChain(name: string, port: ServicePort, endpoint: string): string {
  return `KUBE-SEP-${chainHash(name + port.protocol.toLowerCase() + endpoint)}`;
}

/** What the names of a Service port's chains have in common in nftables mode. */
export function portBase(service: Service, port: ServicePort): string {
  const text = portText(service, port);
  return `${chainHash(text).slice(0, 8)}-${text}`;
}

/** What the names of an endpoint's chain and affinity set have in common in nftables mode, where names have no colons. */
export function endpointBase(service: Service, port: ServicePort, {address}: Pick<Endpoint, 'address'>): string {
  const text = `${portText(service, port)}__${address.replaceAll(':', '.')}/${port.targetPort}`;
  return `${chainHash(text).slice(0, 8)}-${text}`;
}

function portText({namespace, name}: Service, port: ServicePort): string {
  return `${namespace}/${name}/${port.protocol.toLowerCase()}/${port.name}`;
}

/** "address:port", with the brackets an IPv6 address needs. */
export function hostPort(family: Family, address: string, port: number): string {
  return family === 'IPv4' ? `${address}:${port}` : `[${address}]:${port}`;
}

/** The first 16 characters of the base32 of the sha256: they take its first ten bytes. */
function chainHash(text: string): string {
  const digest = hash('sha256', text, 'buffer');
  let letters = '';
  for (let start = 0; start < 10; start += 5) {
    const high = digest.readUIntBE(start, 2) * 16 + (digest.readUInt8(start + 2) >>> 4);
    const low = (digest.readUInt8(start + 2) & 15) * 0x1_0000 + digest.readUInt16BE(start + 3);
    letters += base32Of20Bits(high) + base32Of20Bits(low);
  }
  return letters;
}

function base32Of20Bits(bits: number): string {
  return BASE32.charAt(bits >>> 15) + BASE32.charAt((bits >>> 10) & 31) + BASE32.charAt((bits >>> 5) & 31) + BASE32.charAt(bits & 31);
}
