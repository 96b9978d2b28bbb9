import {joinHostPort, type Family, type Protocol} from './address.ts';

/** One virtual server of IPVS: an address and port whose connections the kernel distributes over real servers. */
export interface VirtualServer {
  readonly family: Family;
  readonly protocol: Protocol;
  readonly address: string;
  readonly port: number;
  /** `rr`, `lc`, `mh` and so on. */
  readonly scheduler: string;
  /** Its flags, as ipvsadm names them: `mh-port`, `ops`, `netmask 255.255.255.0`. */
  readonly flags: readonly string[];
  /** How long a client stays with its real server, in seconds; null without persistence. */
  readonly persistence: number | null;
  readonly realServers: readonly RealServer[];
  /** The line in its dump, from 1; 0 for an expected one. */
  readonly line: number;
  readonly text: string;
}

export interface RealServer {
  readonly address: string;
  readonly port: number;
  /** `10.0.0.1:80` or `[fd00::1]:80`. */
  readonly hostPort: string;
  readonly forwarding: 'masquerade' | 'route' | 'tunnel';
  /** 0 accepts no new connections. */
  readonly weight: number;
  /** With this many connections it gets no more; 0 means no limit. */
  readonly upperThreshold: number;
  readonly line: number;
  readonly text: string;
}

/** The kernel's key of a virtual server. */
export function serverKey({protocol, address, port}: Pick<VirtualServer, 'protocol' | 'address' | 'port'>): string {
  return `${protocol} ${joinHostPort(address, port)}`;
}
