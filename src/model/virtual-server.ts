import type {Family} from './family.ts';
import type {Protocol} from './service-port.ts';

/** One virtual server of IPVS: an address and port whose connections the kernel spreads over real servers. */
export interface VirtualServer {
  readonly family: Family;
  readonly protocol: Protocol;
  readonly address: string;
  readonly port: number;
  /** `rr`, `lc`, `mh` and so on. */
  readonly scheduler: string;
  /** What is set beside it, as ipvsadm names it: `mh-port`, `ops`, `netmask 255.255.255.0`. */
  readonly flags: readonly string[];
  /** Seconds for which a client stays with its real server; null without persistence. */
  readonly persistence: number | null;
  readonly realServers: readonly RealServer[];
  /** From 1 in the dump it was read from; 0 when it is only expected. */
  readonly line: number;
  readonly text: string;
}

export interface RealServer {
  readonly address: string;
  readonly port: number;
  /** `10.0.0.1:80` or `[fd00::1]:80`. */
  readonly hostPort: string;
  readonly forwarding: 'masquerade' | 'route' | 'tunnel';
  /** 0 takes no new connections. */
  readonly weight: number;
  /** From so many connections on it is passed over; 0 means never. */
  readonly upperThreshold: number;
  readonly line: number;
  readonly text: string;
}

/** What the kernel finds a virtual server by. */
export function serverKey({protocol, address, port}: Pick<VirtualServer, 'protocol' | 'address' | 'port'>): string {
  return `${protocol} ${joinHostPort(address, port)}`;
}

export function joinHostPort(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
