import type {Mode} from './laboratory.ts';

/** Something that another program does on a node. */
export interface Step {
  /** `iptables`: text for iptables-restore; `sh`: a script, for switches and routes. */
  readonly tool: 'iptables' | 'nft' | 'ipset' | 'sh';
  readonly text: string;
  /** The backend of iptables: the one of kube-proxy, or the other one. In nftables mode the first is `nft`. */
  readonly backend?: 'own' | 'other';
  /** Where a script runs, if not on the node. */
  readonly place?: 'pod4' | 'pod5' | 'node-b' | 'client';
}

/** Rules of other programs, or switches, on a node that is healthy without them. Whether they do harm is measured. */
export interface Scenario {
  readonly name: string;
  readonly load: readonly Step[];
  /** All, if it is left out. */
  readonly modes?: readonly Mode[];
  /** The kernel has nothing like it for IPv6. */
  readonly isIPv4Only?: true;
  readonly isIPv6Only?: true;
  /** It is tried also where no Node has a podCIDR: what it does depends on who is taken for a pod of the node. */
  readonly isAboutPods?: true;
  /** It does what it is for, such as to ban a client outside or to close a pod: a finding that informs is enough. */
  readonly isPurpose?: true;
  /** What the files of the node hold decides what it does: no warning may say that an outcome is undetermined. */
  readonly isDecided?: true;
}

type Table = 'raw' | 'mangle' | 'nat' | 'filter' | 'security';

export function rules(table: Table, ...lines: readonly string[]): Step {
  return {tool: 'iptables', text: `*${table}\n${lines.map(line => line.trim()).join('\n')}\nCOMMIT\n`};
}

export function elsewhere(step: Step): Step {
  return {...step, backend: 'other'};
}

export function nft(text: string): Step {
  return {tool: 'nft', text};
}

export function ipset(...lines: readonly string[]): Step {
  return {tool: 'ipset', text: `${lines.join('\n')}\n`};
}

export const inIptables: readonly Mode[] = ['nft', 'legacy'];
export const inNftables: readonly Mode[] = ['nftables'];

export function sh(text: string): Step {
  return {tool: 'sh', text};
}

export function shIn(place: NonNullable<Step['place']>, text: string): Step {
  return {tool: 'sh', text, place};
}

/** One table of nftables with one base chain. */
export function nftChain(hook: string, ...lines: readonly string[]): Step {
  return nft(`table inet firewall {\n chain ${hook.split(' ')[0]} {\n type filter hook ${hook}\n ${lines.join('\n ')}\n }\n}\n`);
}

export const drop = ':FORWARD DROP';
export const established = '-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT';

/** ufw as it is after `ufw enable`, with the policy for what is forwarded. */
export function ufw(forward: string, ...routes: readonly string[]): Step {
  return rules(
    'filter',
    ...[':INPUT DROP', `:FORWARD ${forward}`, ':OUTPUT ACCEPT'],
    ...['before-input', 'user-input', 'before-forward', 'user-forward', 'reject-forward', 'track-forward', 'skip-to-policy-forward'].map(
      name => `:ufw-${name} -`,
    ),
    ...[
      '-A INPUT -j ufw-before-input',
      '-A FORWARD -j ufw-before-forward',
      '-A FORWARD -j ufw-reject-forward',
      '-A FORWARD -j ufw-track-forward',
    ],
    ...['-A ufw-before-input -i lo -j ACCEPT', '-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'],
    ...['-A ufw-before-input -m conntrack --ctstate INVALID -j DROP', '-A ufw-before-input -p icmp -m icmp --icmp-type 8 -j ACCEPT'],
    ...['-A ufw-before-input -j ufw-user-input', '-A ufw-user-input -p tcp -m tcp --dport 22 -j ACCEPT'],
    ...[
      '-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
      '-A ufw-before-forward -p icmp -m icmp --icmp-type 8 -j ACCEPT',
    ],
    '-A ufw-before-forward -j ufw-user-forward',
    ...routes.map(route => `-A ufw-user-forward ${route}`),
  );
}
