import {iptablesMode} from './iptables/iptables-mode.ts';
import {ipvsMode} from './ipvs/ipvs-mode.ts';
import {nftablesMode} from './nftables/nftables-mode.ts';
import type {ProxyMode} from './proxy-mode.ts';
import {userspaceMode} from './userspace/userspace-mode.ts';

/** All modes of kube-proxy that can be evaluated. */
export const proxyModes: readonly ProxyMode[] = [iptablesMode, ipvsMode, nftablesMode, userspaceMode];
