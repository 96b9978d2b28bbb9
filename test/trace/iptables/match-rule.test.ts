import {describe, expect, test} from 'vitest';
import {parseRule} from '../../../src/parse/iptables/rule.ts';
import {lowerRule} from '../../../src/trace/iptables/lower-iptables-rule.ts';
import {matchConditions} from '../../../src/trace/match-conditions.ts';
import type {Packet} from '../../../src/trace/walked-packet.ts';
import {environment, type NodeSetup, packetOf, type Sent} from '../send.ts';

const usual: Sent = {from: '10.244.1.5', to: '10.96.1.1', port: 80};

function match(rule: string, sent: Partial<Sent> = {}, setup: NodeSetup = {}, packet: Partial<Packet> = {}) {
  const parsed = parseRule(`-A C ${rule}`, {table: 'nat', chain: 'C', line: 1});
  return matchConditions(lowerRule(parsed).steps[0]?.conditions ?? [], {
    packet: {...packetOf({...usual, ...sent}), ...packet},
    environment: environment(setup),
    hook: null,
    priority: 0,
    place: parsed,
    set: () => undefined,
  });
}

const [yes, no, unknown] = [1, 0, null];

describe('addresses and protocols', () => {
  test.each<readonly [string, Partial<Sent>, number]>([
    ['', {}, yes],
    ['-s 10.244.0.0/16', {}, yes],
    ['-s 10.245.0.0/16', {}, no],
    ['! -s 10.244.0.0/16', {}, no],
    ['! -s 10.245.0.0/16', {}, yes],
    ['-d 10.96.1.1/32', {}, yes],
    ['-d 10.96.1.1', {}, yes],
    ['-d 10.96.1.2/32', {}, no],
    ['-s 10.244.1.5 -d 10.96.1.2', {}, no],
    ['-s fd00::/8', {from: 'fd00:10::5', to: 'fd00:96::1'}, yes],
    ['! -s fd00:10::/48', {from: 'fd00:10::5', to: 'fd00:96::1'}, no],
    ['-d FD00:96:0:0::1/128', {from: 'fd00:10::5', to: 'fd00:96::1'}, yes],
    ['-p tcp', {}, yes],
    ['-p udp', {}, no],
    ['-p 17', {protocol: 'udp'}, yes],
    ['-p 6', {protocol: 'udp'}, no],
    ['-p all', {protocol: 'sctp'}, yes],
    ['-p 0', {protocol: 'sctp'}, yes],
    ['! -p tcp', {protocol: 'udp'}, yes],
    ['-p icmp -m icmp --icmp-type 8', {}, no],
    ['-f', {}, no],
    ['! -f', {}, yes],
  ])('%j', (rule, sent, likelihood) => {
    expect(match(rule, sent)).toBe(likelihood);
  });

  test('an invalid address leaves the match unknown', () => {
    expect(match('-s example.org')).toBe(unknown);
  });
});

describe('ports', () => {
  test.each<readonly [string, Partial<Sent>, number | null]>([
    ['-p tcp -m tcp', {}, yes],
    ['-p tcp -m tcp --dport 80', {}, yes],
    ['-p tcp -m tcp --dport 81', {}, no],
    ['-p tcp -m tcp ! --dport 81', {}, yes],
    ['-p tcp -m tcp --dport 80:90', {port: 90}, yes],
    ['-p tcp -m tcp --dport 80:90', {port: 91}, no],
    ['-p tcp -m tcp --dport :90', {port: 0}, yes],
    ['-p tcp -m tcp --dport 8000:', {port: 65535}, yes],
    ['-p tcp -m tcp --destination-port 80', {}, yes],
    ['-m udp --dport 80', {}, no],
    ['-p udp -m udp --dport 53', {protocol: 'udp', port: 53}, yes],
    ['-p sctp -m sctp --dport 53', {protocol: 'sctp', port: 53}, yes],
    // The input interface of a client is unknown.
    ['-p tcp -m tcp --sport 1024:65535', {}, unknown],
    ['-p tcp -m tcp --sport 0:65535', {}, yes],
    ['-p tcp -m tcp --sport 53 --dport 81', {}, no],
    ['-p tcp -m multiport --dports 80,443', {}, yes],
    ['-p tcp -m multiport --dports 443,8000:8080', {port: 8050}, yes],
    ['-p tcp -m multiport --dports 443,8000:8080', {port: 9000}, no],
    ['-p tcp -m multiport ! --dports 80,443', {}, no],
    ['-p tcp -m multiport --ports 80', {}, yes],
    ['-p tcp -m multiport --ports 443', {}, unknown],
    ['-p tcp -m multiport --sports 1024', {}, unknown],
    ['-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN', {}, yes],
    ['-p tcp -m tcp --syn', {}, yes],
    ['-p tcp -m tcp ! --syn', {}, no],
    ['-p tcp -m tcp --tcp-flags SYN,ACK SYN,ACK', {}, no],
    ['-p tcp -m tcp --tcp-flags ALL SYN', {}, yes],
    ['-p tcp -m tcp --tcp-flags FIN,RST NONE', {}, yes],
    ['-p tcp -m tcp --tcp-flags ALL NONE', {}, no],
    ['-p tcp -m tcp --tcp-option 8', {}, unknown],
  ])('%j', (rule, sent, likelihood) => {
    expect(match(rule, sent)).toBe(likelihood);
  });
});

describe('marks', () => {
  test.each([
    ['-m mark --mark 0x4000/0x4000', 0x4000, yes],
    ['-m mark --mark 0x4000/0x4000', 0xc001, yes],
    ['-m mark --mark 0x4000/0x4000', 0x8000, no],
    ['-m mark ! --mark 0x4000/0x4000', 0, yes],
    ['-m mark --mark 0x1', 0x1, yes],
    ['-m mark --mark 0x1', 0x4001, no],
    ['-m mark --mark 0x80000000/0x80000000', 0x80000000, yes],
    ['-m mark --mark 0x0/0x80000000', 0x80000000, no],
  ])('%j and 0x%s', (rule, mark, likelihood) => {
    expect(match(rule, {mark})).toBe(likelihood);
  });

  test('of a connection are separate', () => {
    expect(match('-m connmark --mark 0x80/0x80', {connectionMark: 0x80})).toBe(yes);
    expect(match('-m connmark --mark 0x80/0x80', {mark: 0x80})).toBe(no);
  });
});

describe('states', () => {
  test.each<readonly [string, Partial<Packet>, number | null]>([
    ['-m conntrack --ctstate NEW', {}, yes],
    ['-m conntrack --ctstate RELATED,ESTABLISHED', {}, no],
    ['-m conntrack --ctstate INVALID,NEW', {}, yes],
    ['-m conntrack ! --ctstate NEW', {}, no],
    ['-m conntrack --ctstate DNAT', {}, no],
    ['-m conntrack --ctstate DNAT', {rewritten: true}, yes],
    ['-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT', {rewritten: true}, no],
    ['-m conntrack --ctstate UNTRACKED', {}, no],
    ['-m conntrack --ctstate UNTRACKED', {untracked: true}, yes],
    ['-m conntrack --ctstate NEW', {untracked: true}, no],
    ['-m state --state NEW,ESTABLISHED', {}, yes],
    ['-m state --state ESTABLISHED', {}, no],
    ['-m conntrack --ctdir ORIGINAL', {}, yes],
    ['-m conntrack --ctdir REPLY', {}, no],
    ['-m conntrack --ctstate NEW --ctorigdst 10.96.1.1', {}, yes],
    ['-m conntrack --ctorigdst 10.96.1.2', {}, no],
    ['-m conntrack --ctorigdstport 8080', {}, no],
    ['-m conntrack --ctorigsrcport 1024:65535', {sourcePort: 40_000}, yes],
    ['-m conntrack --ctorigsrcport 1:1023', {sourcePort: 40_000}, no],
    ['-m conntrack --ctorigsrcport 1:1023', {}, unknown],
    ['-m conntrack --ctrepldstport 40000', {sourcePort: 40_000}, yes],
    ['-m conntrack --ctrepldstport 40000', {sourcePort: 40_000, masquerade: true}, unknown],
    ['-m conntrack --ctrepldstport 1:22', {sourcePort: 40_000, masquerade: true}, no],
    ['-m conntrack --ctreplsrc 10.96.1.1', {}, yes],
    ['-m conntrack --ctreplsrc 10.244.1.2', {}, no],
    ['-m conntrack --ctrepldst 10.96.1.1', {}, no],
    ['-m conntrack --ctrepldst 10.0.0.0/8', {}, yes],
    ['-m conntrack --ctstate ESTABLISHED --ctorigdst 10.96.1.1', {}, no],
  ])('%j of %j', (rule, packet, likelihood) => {
    expect(match(rule, {}, {}, packet)).toBe(likelihood);
  });
});

describe('address types', () => {
  test.each<readonly [string, Partial<Sent>, number | null]>([
    ['-m addrtype --dst-type LOCAL', {to: '192.168.1.10'}, yes],
    ['-m addrtype --dst-type LOCAL', {to: '127.0.0.1'}, yes],
    ['-m addrtype --dst-type LOCAL', {}, no],
    ['-m addrtype --dst-type UNICAST', {to: '192.168.1.10'}, no],
    ['-m addrtype --dst-type UNICAST', {from: 'fd00::5', to: 'fd00:192::10'}, yes],
    ['-m addrtype ! --dst-type LOCAL', {}, yes],
    ['-m addrtype --src-type LOCAL', {from: '192.168.1.10'}, yes],
    ['-m addrtype --src-type LOCAL --dst-type LOCAL', {from: '192.168.1.10'}, no],
    ['-m addrtype --dst-type LOCAL,BROADCAST', {}, no],
    ['-m addrtype ! --dst-type LOCAL,BROADCAST', {}, yes],
    ['-m addrtype --dst-type BROADCAST', {to: '255.255.255.255'}, unknown],
    ['-m addrtype --dst-type MULTICAST', {to: '224.0.0.1'}, yes],
    ['-m addrtype --dst-type MULTICAST', {from: 'fd00::1', to: 'ff02::1'}, yes],
    ['-m addrtype --dst-type MULTICAST', {}, no],
    ['-m addrtype --dst-type UNICAST', {}, yes],
    ['-m addrtype --dst-type UNICAST', {to: '192.168.1.10'}, no],
    ['-m addrtype --dst-type UNICAST', {to: '224.0.0.1'}, no],
    ['-m addrtype --dst-type BLACKHOLE', {}, no],
    ['-m addrtype --dst-type UNREACHABLE', {from: 'fd00::5', to: 'fd00::99'}, unknown],
    ['-m addrtype --dst-type LOCAL --limit-iface-in', {to: '192.168.1.10'}, unknown],
    ['-m addrtype --dst-type LOCAL --limit-iface-in', {}, no],
  ])('%j of %j', (rule, sent, likelihood) => {
    expect(match(rule, sent)).toBe(likelihood);
  });

  test('are unknown if the addresses of the node are unknown', () => {
    expect(match('-m addrtype --dst-type LOCAL', {}, {localUnknown: true})).toBe(unknown);
    expect(match('-m addrtype ! --dst-type LOCAL', {}, {localUnknown: true})).toBe(unknown);
    expect(match('-m addrtype --dst-type UNICAST', {}, {localUnknown: true})).toBe(unknown);
    expect(match('-m addrtype --dst-type LOCAL', {to: '192.168.1.10'}, {localUnknown: true})).toBe(yes);
  });
});

describe('interfaces', () => {
  test.each<readonly [string, Partial<Sent>, number | null]>([
    ['-i eth0', {inInterface: 'eth0'}, yes],
    ['-i eth0', {inInterface: 'eth01'}, no],
    ['-i veth+', {inInterface: 'veth12'}, yes],
    ['-i veth+', {inInterface: 'eth0'}, no],
    ['! -i veth+', {inInterface: 'eth0'}, yes],
    ['-i +', {inInterface: 'eth0'}, yes],
    ['-o eth0', {outInterface: 'eth0'}, yes],
    ['-i eth0', {}, unknown],
    ['! -i eth0', {}, unknown],
    ['-o eth0', {inInterface: 'eth0'}, unknown],
  ])('%j of %j', (rule, sent, likelihood) => {
    expect(match(rule, sent)).toBe(likelihood);
  });

  test('that differ from those of the packet do not match', () => {
    expect(match('-i docker0', {}, {notInterfaces: ['docker0']})).toBe(no);
    expect(match('! -i docker0', {}, {notInterfaces: ['docker0']})).toBe(yes);
  });
});

describe('probability', () => {
  test.each([
    ['-m statistic --mode random --probability 0.25000000000', 0.25],
    ['-m statistic --mode random ! --probability 0.25000000000', 0.75],
    ['-m statistic --mode nth --every 4 --packet 0', 0.25],
    ['-m statistic --mode nth ! --every 4 --packet 0', 0.75],
    ['-s 10.245.0.0/16 -m statistic --mode random --probability 0.5', no],
    ['-m statistic --mode random --probability 0.5 -m statistic --mode random --probability 0.5', 0.25],
    ['-m statistic --mode random --probability 0.5 -m frobnicate', unknown],
    ['-m statistic --mode unheard', unknown],
  ])('%j', (rule, likelihood) => {
    expect(match(rule)).toBe(likelihood);
  });
});

describe('known clients (-m recent)', () => {
  const asked = '-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-A --mask 255.255.255.255 --rsource';

  test('match a list that contains them', () => {
    expect(match(asked)).toBe(no);
    expect(match(asked, {}, {knownTo: ['KUBE-SEP-A']})).toBe(yes);
    expect(match(asked, {}, {knownTo: ['KUBE-SEP-B']})).toBe(no);
    expect(match('-m recent ! --rcheck --name KUBE-SEP-A')).toBe(yes);
    expect(match('-m recent --update --seconds 60', {}, {knownTo: ['DEFAULT']})).toBe(yes);
  });

  test('are added to a list by every packet', () => {
    expect(match('-m recent --set --name KUBE-SEP-A --mask 255.255.255.255 --rsource')).toBe(yes);
  });

  test('are not counted', () => {
    expect(match('-m recent --update --seconds 60 --hitcount 4 --name SSH', {}, {knownTo: ['SSH']})).toBe(unknown);
  });
});

describe('ipsets', () => {
  const sets = {'KUBE-CLUSTER-IP': ['10.96.1.1'], clients: ['10.244.1.5']};

  test('that were read are evaluated', () => {
    expect(match('-m set --match-set KUBE-CLUSTER-IP dst,dst', {}, {sets})).toBe(yes);
    expect(match('-m set --match-set clients src', {}, {sets})).toBe(yes);
    expect(match('-m set --match-set clients dst', {}, {sets})).toBe(no);
    expect(match('-m set ! --match-set clients dst', {}, {sets})).toBe(yes);
  });

  test('that were not read are unknown', () => {
    expect(match('-m set --match-set cali40masq src')).toBe(unknown);
    expect(match('-m set ! --match-set cali40masq src')).toBe(unknown);
    expect(match('-s 10.245.0.0/16 -m set --match-set cali40masq src')).toBe(no);
  });
});

describe('other matches', () => {
  test.each([
    ['-m comment --comment "anything at all"', yes],
    ['-m nfacct --nfacct-name  localhost_nps_accepted_pkts', yes],
    ['-m iprange --src-range 10.244.1.1-10.244.1.9', yes],
    ['-m iprange --src-range 10.244.1.6-10.244.1.9', no],
    ['-m iprange --src-range 10.244.1.5-10.244.1.5', yes],
    ['-m iprange --src-range 10.244.1.5-nonsense', unknown],
    ['-m iprange --src-range fd00::1-fd00::9', no],
    ['-m iprange ! --dst-range 10.96.0.0-10.96.255.255', no],
    ['-m iprange --src-range nonsense', unknown],
    ['-s 10.0.1.0/255.0.255.0', yes],
    ['-s 10.0.2.0/255.0.255.0', no],
    ['! -d 10.96.0.1/255.255.0.255', no],
    // Too many addresses.
    ['-s 0.0.0.1/0.0.0.1', unknown],
    ['-m pkttype --pkt-type unicast', yes],
    ['-m pkttype --pkt-type multicast', no],
    ['-m rpfilter --validmark', yes],
    ['-m rpfilter --validmark --invert', no],
    ['-m limit --limit 5/min', unknown],
    ['-m mac --mac-source aa:bb:cc:dd:ee:ff', unknown],
    ['-m physdev ! --physdev-is-in', unknown],
    ['-m time --datestop 2010-01-01T00:00:00', no],
    ['-m time --datestart 2010-01-01T00:00:00', yes],
    ['-m time --datestart 2010-01-01T00:00:00 --datestop 2099-01-01T00:00:00', unknown],
    ['-m time --timestart 08:00:00', unknown],
    // iptables prints the last date that it knows for rules without one.
    ['-m time --datestop 2038-01-19T03:14:07', yes],
    ['-m time --timestart 08:00:00 --datestop 2038-01-19T03:14:07', unknown],
    ['-p tcp -m tcp --tcp-option 2', yes],
    ['-p tcp -m tcp ! --tcp-option 2', no],
    ['-p tcp -m tcp --tcp-option 30', unknown],
    ['-m rt --rt-type 0', no],
    ['-m ttl --ttl-lt 5', no],
    ['-m ttl --ttl-gt 5', yes],
    ['-m ttl ! --ttl-eq 1', yes],
    ['-m ttl --ttl-eq 64', unknown],
    ['-p tcp -m length --length 0:39', no],
    ['-p tcp -m tcpmss --mss 536:65535', yes],
    ['-p tcp -m tcpmss ! --mss 536:65535', no],
    ['-p tcp -m tcpmss --mss 1:535', no],
    ['-p tcp -m tcpmss ! --mss 1:535', yes],
    ['-p tcp -m tcpmss --mss 1:1400', unknown],
    ['-p tcp -m length --length 40:80', yes],
    ['-p tcp -m length ! --length 40:80', no],
    ['-p tcp -m length --length 0:59', unknown],
    ['-p tcp -m length --length 1500:65535', no],
    ['-m string --string "cmd.exe" --algo bm --to 65535', no],
    ['-m string ! --string "GET /" --algo bm', yes],
    ['-m string --hex-string "|de ad|" --algo kmp', unknown],
    ['-m string --hex-string "|de ad be ef|" --algo kmp', no],
    ['-m policy --dir in --pol none', unknown],
    ['-m helper --helper ftp', no],
    ['-m helper ! --helper ftp', yes],
    ['-m connlabel --label 4', no],
    ['-m socket --transparent', no],
    ['-m socket --nowildcard', unknown],
    ['-m ipv6header --header ipv6-frag --soft', no],
    ['-m ipv6header ! --header ipv6-frag --soft', unknown],
    ['-m frobnicate', unknown],
    ['! -s 10.244.0.0/16 -m frobnicate', no],
    ['-m frobnicate -p udp', no],
  ])('%j', (rule, likelihood) => {
    expect(match(rule)).toBe(likelihood);
  });
});
