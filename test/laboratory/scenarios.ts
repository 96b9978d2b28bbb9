import type {Mode} from './laboratory.ts';

/** Something that another program does on a node. */
export interface Step {
  /** `iptables`: text for iptables-restore; `sh`: a script, for switches and routes. */
  readonly tool: 'iptables' | 'nft' | 'ipset' | 'sh';
  readonly text: string;
  /** The backend of iptables: the one of kube-proxy, or the other one. In nftables mode the first is `nft`. */
  readonly backend?: 'own' | 'other';
}

/** Rules of other programs, or switches, on a node that is healthy without them. Whether they do harm is measured. */
export interface Scenario {
  readonly name: string;
  readonly load: readonly Step[];
  /** All, if it is left out. */
  readonly modes?: readonly Mode[];
  /** It is a ban of single clients outside, for which a finding that informs is enough. */
  readonly aimed?: true;
}

type Table = 'raw' | 'mangle' | 'nat' | 'filter';

function rules(table: Table, ...lines: readonly string[]): Step {
  return {tool: 'iptables', text: `*${table}\n${lines.map(line => line.trim()).join('\n')}\nCOMMIT\n`};
}

function elsewhere(step: Step): Step {
  return {...step, backend: 'other'};
}

function nft(text: string): Step {
  return {tool: 'nft', text};
}

function ipset(...lines: readonly string[]): Step {
  return {tool: 'ipset', text: `${lines.join('\n')}\n`};
}

export const scenarios: readonly Scenario[] = [
  {name: 'nothing', load: []},
  {name: 'nft-forward-drop', load: [nft('table inet filter { chain forward { type filter hook forward priority 0; policy drop; }; }')]},
  {
    name: 'nft-input-accept',
    load: [nft('table inet filter { chain input { type filter hook input priority 0; policy accept; ct state established accept; }; }')],
  },
  {
    name: 'docker-drop-other-backend',
    load: [elsewhere(rules('filter', ':FORWARD DROP', ':DOCKER-USER -', '-A FORWARD -j DOCKER-USER', '-A DOCKER-USER -j RETURN'))],
  },
  {name: 'ban-client-raw', load: [rules('raw', '-A PREROUTING -s 203.0.113.9 -j DROP')], aimed: true},
  {name: 'ban-stranger-raw', load: [rules('raw', '-A PREROUTING -s 203.0.113.77 -j DROP')]},
  {name: 'one-pod-may-not-answer', load: [rules('filter', '-I FORWARD -s 10.244.11.5/32 -m conntrack --ctstate ESTABLISHED -j DROP')]},
  {name: 'masquerade-all-to-pods', load: [rules('nat', '-A POSTROUTING -d 10.244.0.0/16 -j MASQUERADE')]},
  {name: 'foreign-mark-0x4000', load: [rules('mangle', '-A PREROUTING -i eth0 -j MARK --set-xmark 0x4000/0x4000')]},
  {
    name: 'ban-network-ipset',
    load: [
      ipset('create banned hash:net', 'add banned 203.0.113.0/24'),
      rules('filter', '-I FORWARD -m set --match-set banned src -j DROP'),
    ],
    aimed: true,
  },
  {name: 'ttl-1', load: [rules('mangle', '-A PREROUTING -i cali4 -j TTL --ttl-set 1')]},
  {name: 'replies-notrack', load: [rules('raw', '-A PREROUTING -i cali5 -p tcp --sport 8080 -j CT --notrack')]},
];
