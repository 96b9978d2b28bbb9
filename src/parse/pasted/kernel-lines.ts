import {joinHostPort} from '../../model/address.ts';
import {groupBy, uniqueBy} from '../../model/lists.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import {isNodePort} from '../../model/service-port.ts';
import {someOf} from '../../model/text.ts';
import {parseSysctls} from '../network-facts.ts';
import {meanings, meant, type TextFact, told} from './captured-packets.ts';
import {endsOfTraces} from './traced-packets.ts';

/** Lines of `sysctl` about forwarding, with the last value of each; null if there are none. Those of a pod are its own. */
export function listedSwitches(lines: readonly string[]): string | null {
  if (!lines.some(line => /forward|bridge-nf-call|nf_conntrack_|route_localnet/.test(line))) return null;
  const values = new Map<string, string>();
  let ofPod = -maxBelow;
  for (const [at, line] of lines.entries()) {
    if (/\b(?:exec|docker run|nsenter)\b/.test(line)) ofPod = at;
    if (at - ofPod < maxBelow) continue;
    const [, name, value] = switchLine.exec(line) ?? [];
    if (name !== undefined && value !== undefined) values.set(name, value);
    const [, file] = /\bcat \/proc\/sys\/(net\/ipv4\/ip_forward|net\/bridge\/bridge-nf-call-ip6?tables)\s*$/.exec(line) ?? [];
    const [read] = /^\s*[01]\s*$/.exec(lines[at + 1] ?? '') ?? [];
    if (file !== undefined && read !== undefined) values.set(file.replaceAll('/', '.'), read.trim());
  }
  return values.size === 0 ? null : [...values].map(([name, value]) => `${name} = ${value}\n`).join('');
}

/** What stops packets before any rule of a Service is asked for, or after it. Most telling first. */
export function stoppedInKernel(
  lines: readonly string[],
  switches: string,
  {hasSix = false, rulesets = []}: {readonly hasSix?: boolean; readonly rulesets?: readonly Ruleset[]} = {},
): readonly TextFact[] {
  // Of the families that the node has rules of.
  const values = [...(parseSysctls(switches) ?? [])].filter(([name]) => hasSix || !name.includes('.ipv6.'));
  return [
    ...endsOfTraces(lines, rulesets),
    ...uniqueBy(stoppedPackets(lines), ({text}) => text).slice(0, maxStopped),
    ...told(strictCilium(lines)),
    ...told(isTableFull(lines, switches) ? ['the kernel drops packets of new connections, since its table of connections is full'] : []),
    ...meant(
      offSwitches,
      values.map(pair => pair.join('=')),
    ),
  ];
}

/** Of packets that a log names: clients try again from other ports. */
const maxStopped = 3;

/** Settings that are off, and what does not work without them. */
const offSwitches = meanings(String.raw`
^net\.bridge\.bridge-nf-call-iptables=0
  net.bridge.bridge-nf-call-iptables is 0: where pods are on a bridge (cni0, docker0), one does not reach a cluster IP by an endpoint on its own node
^net\.ipv4\.conf\.all\.route_localnet=0
  net.ipv4.conf.all.route_localnet is 0: node ports do not answer on 127.0.0.1 (localhost), and kube-proxy in iptables mode turns it on unless localhostNodePorts is false
^(net\.ipv4\.ip_forward|net\.ipv6\.conf\.all\.forwarding)=0
  $1 is 0: the node forwards no packet, so that its pods reach no other pod by a Service, and node ports lead to no pod
`);

/** Lines that a command prints. */
const maxBelow = 4;
const switchLine =
  /^\s*(net\.(?:ipv4\.(?:ip_forward|conf\.all\.route_localnet)|ipv6\.conf\.all\.forwarding|bridge\.bridge-nf-call-ip6?tables|netfilter\.nf_conntrack_(?:count|max)))\s*=\s*(\d+)\s*$/;

/**
 * `[UFW BLOCK] IN=cni0 OUT=eth0 … SRC=10.42.0.8 DST=192.168.1.10 … PROTO=TCP SPT=1 DPT=6443`: those that pods send or get, or that are for
 * Kubernetes. What scans the node is stopped everywhere.
 */
function stoppedPackets(lines: readonly string[]): readonly TextFact[] {
  return lines.flatMap(line => {
    if (!line.includes(' SRC=')) return [];
    const [, prefix = '', into = '', out = '', rest] = /([^\s\]:]*\[?[^\]:]*)\]?:?\s*IN=(\S*) OUT=(\S*)(.*)/.exec(line) ?? [];
    if (rest === undefined || !/\b\w*(?:BLOCK|DROP|REJECT|DENY|DENIED)/i.test(prefix)) return [];
    const field = (name: string): string => new RegExp(` ${name}=(\\S+)`).exec(rest)?.[1] ?? '';
    const port = Number(field('DPT'));
    const isOfPods = [into, out].some(name => podInterface.test(name)) || (into !== '' && out !== '');
    // Calico sends what is for pods of other nodes as IPIP.
    if (!isOfPods && !isPortOfKubernetes(port) && field('PROTO') !== '4') return [];
    const [source, destination] = [field('SRC'), field('DST')];
    const to = port > 0 ? joinHostPort(destination, port) : destination;
    const by = [into === '' ? '' : `in by ${into}`, out === '' ? '' : `out by ${out}`].filter(part => part !== '').join(', ');
    const words = prefix.replace(/^.*\[/, '').trim();
    const text = `a firewall stops ${field('PROTO').replace(/^4$/, 'IPIP')} ${source} → ${to} (${by}), as its log line "${words}" says${/INVALID/i.test(words) ? ': this node knows no connection of these packets, as it saw one direction alone or none of its beginning' : ''}`;
    return [{text, about: [to]}];
  });
}

const podInterface = /^(?:cni\d|flannel|cali|vxlan|tunl\d|veth|weave|kube-|cilium|lxc|docker\d|br-|wg|antrea)/;

function isPortOfKubernetes(port: number): boolean {
  return isNodePort(port) || [6443, 16_443, 10_250, 8472, 4789, 179, 9345].includes(port);
}

/**
 * Packets that the reverse-path filter drops, as the kernel logs them: `IPv4: martian source 10.0.0.1 from 10.0.0.113, on dev lxc3`, and
 * answers `ip route get` about them. The next line shows whether it was ARP, which means nothing, as does a host that sends to itself.
 */
export function martians(lines: readonly string[]): readonly string[] {
  const found = lines.flatMap((line, at) => {
    const [, to = '', from = '', device = ''] = /IPv4: martian source (\S+) from (\S+), on dev (\S+)/.exec(line) ?? [];
    const [, asked, by = '', through = ''] = line.includes('Invalid cross-device link')
      ? (/ route get (\S+) from (\S+) iif (\S+)/.exec(lines[at - 1] ?? '') ?? [])
      : [];
    if (asked !== undefined)
      return {
        from: by,
        to: asked,
        device: through,
        why: `: the way back leads to another interface, ${byFilter(through)}`,
        isCertain: true,
      };
    if (from === to || /ll header: .*? 08 06(?:\s|$)/.test(lines[at + 1] ?? '')) return [];
    if (from !== '' && lines.some(text => text.includes(`inet ${from}/`)))
      return {
        from,
        to,
        device,
        isCertain: true,
        why: ', and has an address of this node as its source: the packet left it, and a router sent it back',
      };
    // At an uplink others send such packets, too: those between private networks that are far from each other are of pods.
    const isFar = isPrivate.test(from) && isPrivate.test(to) && networkOf(from) !== networkOf(to);
    const isOfPods = podInterface.test(device) || (isFar && !to.endsWith('.255'));
    return isOfPods
      ? {from, to, device, isCertain: false, why: `: mostly since its route to ${from} leads to another interface, ${byFilter(device)}`}
      : [];
  });
  return groupBy(found, ({from, device}) => `${from} ${device}`).flatMap(all => {
    // What ip route get says is certain.
    const told = all.find(({isCertain}) => isCertain) ?? all[0];
    if (told === undefined) return [];
    const to = someOf([...new Set(all.map(one => one.to))]);
    return `the kernel drops what ${told.from} sends to ${to} and comes in by ${told.device}${told.why}`;
  });
}

function byFilter(device: string): string {
  return `and rp_filter of ${device} or of all is not 0`;
}

const networkOf = (address: string): string => address.split('.', 2).join('.');
const isPrivate = /^(?:10|172\.(?:1[6-9]|2\d|3[01])|192\.168)\./;

/** Of all and of an interface the larger one counts. Cilium answers pods by other interfaces than that by which they ask. */
function strictCilium(lines: readonly string[]): readonly string[] {
  const listed = lines.filter(line => /[./]rp_filter\b/.test(line)).map(line => line.trim());
  const values = parseSysctls(listed.join('\n')) ?? new Map<string, string>();
  const ofAll = Number(values.get('net.ipv4.conf.all.rp_filter') ?? 0);
  const strict = [...values].flatMap(([key, own]) => {
    const [, name] = /^net\.ipv4\.conf\.((?:lxc|cilium_).*)\.rp_filter$/.exec(key) ?? [];
    return name !== undefined && Math.max(Number(own), ofAll) === 1 ? name : [];
  });
  if (strict.length === 0) return [];
  return [
    `rp_filter is 1 for ${someOf(strict)}${ofAll === 1 ? ' (that of all counts where it is larger)' : ''}: the kernel drops packets whose sender is reached by another interface, as with Cilium, which needs 0 there. systemd sets it again from files of /etc/sysctl.d and /usr/lib/sysctl.d`,
  ];
}

/** Whether the kernel had no place for another connection. */
function isTableFull(lines: readonly string[], switches: string): boolean {
  const values = parseSysctls(switches);
  const [count = NaN, max = NaN] = ['count', 'max'].map(name => Number(values?.get(`net.netfilter.nf_conntrack_${name}`)));
  return count >= max || lines.some(line => line.includes('nf_conntrack: table full, dropping packet'));
}
