import type {Client, Finding, Hits} from '../model/finding.ts';
import {entryText} from '../model/service-port.ts';
import {allOf, namespacedName, plural} from '../model/text.ts';

/** What an error does to clients that are not counted by shares of their connections. */
interface EffectOnClients extends Omit<Hits, 'pods'> {
  /** So many pods of the node, if not all. */
  readonly somePods?: number;
  /** The part of the effect that names the entry through which pods come. */
  readonly way?: string;
}

/** `processes of the node, and clients outside through node port 30080`. `isOfService` if the entries are those of one Service port. */
export function clientsText(clients: readonly Client[], isOfService: boolean): string {
  const byWay = new Map<string, string[]>();
  for (const [kind, own] of Map.groupBy(clients, client => client.kind)) {
    const entries = own.some(({entry}) => entry.kind === 'clusterIP') ? [] : own.map(({entry}) => entry);
    const ways = [...new Set(entries.map(entry => (isOfService ? entryText(entry) : kindNames[entry.kind])))];
    const way = ways.length === 0 ? '' : ` through ${allOf(ways)}`;
    byWay.set(way, [...(byWay.get(way) ?? []), clientNames[kind]]);
  }
  return [...byWay].map(([way, names]) => `${allOf(names)}${way}`).join(', and ');
}

const clientNames: Readonly<Record<Client['kind'], string>> = {
  pod: 'pods',
  node: 'processes of the node',
  outside: 'clients outside',
  remote: 'other nodes or their pods',
};

const kindNames: Readonly<Record<Client['entry']['kind'], string>> = {
  clusterIP: 'cluster IPs',
  nodePort: 'node ports',
  loadBalancerIP: 'load-balancer IPs',
  externalIP: 'external IPs',
};

/** Null where no packet is known to be lost, or to go to a wrong place. */
export function effectOnClients(finding: Finding): EffectOnClients | null {
  const {service, affects, clients = [], senders} = finding;
  const known = ofNode(finding);
  if (known !== null) return {share: 1, ...known};
  if (service === undefined && affects === undefined) return null;
  const pods = clients.filter(({kind}) => kind === 'pod');
  const others = clientsText(
    clients.filter(({kind}) => kind !== 'pod'),
    service !== undefined,
  );
  const {share, effect} = ofService(finding);
  if (pods.length === 0) {
    const who = others === '' ? (senders === undefined ? 'clients' : `senders of packets from ${senders.text}`) : others;
    return {share, effect, who};
  }
  const way = pods.some(({entry}) => entry.kind === 'clusterIP') ? '' : ` through its ${allOf(pods.map(({entry}) => entryText(entry)))}`;
  const some = senders?.pods.length ?? 0;
  return {share, effect: effect + way, way, others, ...(some > 0 ? {somePods: some} : {})};
}

/** What follows the clients in a sentence. */
function ofService(finding: Finding): Pick<Hits, 'share' | 'effect'> {
  const {code, message} = finding;
  const [, effect, share = 1] = byCode[code]?.find(([part]) => message.includes(part)) ?? ['', 'may lose connections for NAME'];
  return {share, effect: effect.replace('NAME', () => nameOf(finding))};
}

function nameOf({service, port, affects = []}: Finding): string {
  if (service !== undefined) return `${namespacedName(service)}${port === undefined || port.name === '' ? '' : `:${port.name}`}`;
  const [first] = affects;
  const ports = affects.reduce((sum, own) => sum + own.ports.length, 0);
  return ports === 1 && first !== undefined ? `${namespacedName(first)}:${first.ports[0]}` : plural(ports, 'Service port');
}

/** By what the message says; the last holds for all others. The share is that of the connections that are lost. */
const byCode: Readonly<Record<string, readonly (readonly [part: string, effect: string, share?: 0])[]>> = {
  ST202: [['', 'have some connections for NAME lost']],
  ST203: [['', 'have connections for NAME sent to an address that is no usable endpoint']],
  ST204: [['', 'have connections for NAME sent to a wrong address']],
  ST205: [['', 'still reach NAME at an address or port that the API no longer has', 0]],
  ST206: [['', 'cannot connect to NAME']],
  ST207: [
    ['must be dropped', 'have packets for NAME let through that should be dropped', 0],
    ['balanced by', 'reach other endpoints of NAME than the traffic policy says', 0],
    ['', 'have connections for NAME dropped'],
  ],
  ST210: [
    ['are dropped though', 'have connections for NAME dropped'],
    ['are not enforced', 'reach NAME from outside its loadBalancerSourceRanges', 0],
    ['', 'have packets for NAME leave the node that should be dropped', 0],
  ],
  ST211: [['', 'may get no answer from NAME']],
  ST212: [['', 'wait until they time out for NAME, and should be refused']],
  ST213: [['', 'have connections for NAME refused or dropped']],
  ST214: [['', 'lose connections for NAME']],
  ST216: [['', 'have connections for NAME taken by an unexpected rule']],
  ST303: [['', 'have connections for NAME refused or dropped']],
  ST401: [['', 'have connections for NAME taken by another rule']],
  ST402: [['', 'have connections for NAME refused or dropped']],
  ST501: [['', 'may have connections for NAME sent elsewhere']],
};

/** What base rules, the kernel and its routes do, as their checks say it. */
function ofNode({code, message}: Finding): (Partial<EffectOnClients> & Pick<Hits, 'effect'>) | null {
  const found = nodeEffects[code]?.find(([part]) => message.includes(part));
  if (found === undefined) return null;
  const [, who, effect] = found;
  const behind = /(\d+) pods? behind /.exec(message)?.[1];
  if (who === 'pods') return {effect, ...(behind === undefined ? {} : {somePods: Number(behind)})};
  return {effect, who};
}

const nodeEffects: Readonly<Record<string, readonly (readonly [part: string, who: string, effect: string])[]>> = {
  ST301: [
    ['works for the node itself', 'processes of the node', 'cannot reach any Service'],
    ['do not meet them reach no Service', 'senders of packets that the jump no longer matches', 'cannot reach any Service'],
    ['Services without endpoints', 'clients of Services without endpoints', 'wait until they time out, and should be refused'],
    ['loadBalancerSourceRanges', 'clients outside loadBalancerSourceRanges', 'are let in'],
    ['when FORWARD drops', 'clients of pods behind Services', 'lose packets'],
  ],
  ST302: [['no reply', 'clients outside, and pods that a Service sends back to themselves,', 'get no answer']],
  ST303: [['and the rule of KUBE-FORWARD', 'clients of pods behind Services', 'lose packets']],
  ST304: [
    ['no node port answers', 'clients of node ports', 'cannot connect'],
    ['node ports do not answer', 'clients of node ports', 'cannot connect where these should answer'],
  ],
  ST507: [['', 'clients of Services with a Local traffic policy', 'reach no endpoint of the node']],
  ST601: [
    ['Node ports lead to no pod', 'clients outside, and pods of other nodes,', 'reach no pod'],
    [' behind ', 'pods', 'reach no other pod by a Service and answer no client'],
  ],
  ST602: [['', 'pods', 'lose connections for Services with an endpoint on the same bridge']],
  ST604: [['', 'clients outside', 'lose connections through node ports and load balancers']],
  ST605: [['', 'all clients', 'have new connections dropped']],
  ST611: [
    ["the node's own processes", 'processes, and pods with hostNetwork,', 'cannot connect to these Services'],
    ['the mark', 'clients outside, and pods that a Service sends back to themselves,', 'lose connections'],
    ['no route leads', 'pods', 'lose connections that Services send there'],
  ],
};
