import {clientNames} from '../analyze/outcomes/sources.ts';
import type {Family} from '../model/address.ts';
import type {PodObject} from '../model/api-objects.ts';
import type {Finding, Hits, Variant} from '../model/finding.ts';
import {entryText, throughEntry} from '../model/service-port.ts';
import {plural, servicePortText, someOf} from '../model/text.ts';

/** The pods of a node; null if they were not all read. */
type PodsOf = (node: string) => readonly PodObject[] | null;

/** Adds to every error whom it hits. What the pods of a node notice is told once for a Service port, whatever the number of its findings. */
export function withHits(findings: readonly Finding[], podsOf: PodsOf): readonly Finding[] {
  if (!findings.some(({severity}) => severity === 'error')) return findings;
  const ofPort = Map.groupBy(findings.filter(isFelt), placeOf);
  const counts = new Map<string, number | undefined>();
  const hits = new Map<Finding, Hits>();
  for (const own of ofPort.values()) {
    const [first] = own;
    const effect = effectOf(own);
    if (first?.node === undefined || effect === null) continue;
    const {node, family = 'IPv4'} = first;
    const key = `${family} ${node}`;
    if (!counts.has(key)) counts.set(key, clientsAmong(podsOf(node), family));
    const some = isOfOtherRules(first) ? (first.senders?.pods.length ?? 0) : 0;
    const pods = isOfItself(first) ? placesOf(own, ['ST211']).length : some > 0 ? some : counts.get(key);
    const clients = clientsOf(first);
    // A node may be without pods for a while.
    const who = clients ?? (pods === 0 ? 'clients' : undefined);
    const found = {...effect, ...(who !== undefined ? {who} : pods === undefined ? {} : {pods})};
    for (const finding of own) hits.set(finding, {...found, effect: found.effect + alsoHit(finding)});
  }
  return findings.map(finding => {
    const found = hits.get(finding) ?? (finding.severity === 'error' ? hitsOfClients(finding) : undefined);
    return found === undefined ? finding : {...finding, hits: found};
  });
}

function isFelt(finding: Finding): boolean {
  const {node, severity, code, share, service, variant} = finding;
  if (node === undefined || severity !== 'error') return false;
  if (isOfItself(finding)) return true;
  return share !== undefined || (service === undefined ? variant !== undefined && affectsAll.has(variant) : ofPorts.has(code));
}

/** An endpoint that gets nothing, and a Service port that is not there: pods notice it whether or not a share was counted. */
const ofPorts: ReadonlySet<string> = new Set(['ST201', 'ST202']);

/** ` (also hit: clients outside the cluster)`: who is not among the pods that are counted. */
function alsoHit({hitSenders = [], senders}: Finding): string {
  const others = hitSenders.filter(name => name !== senders?.text && name !== clientNames.pod);
  return others.length === 0 ? '' : ` (also hit: ${someOf(others, {max: 3})})`;
}

/** Who comes through another entry than the cluster IP: `clients of node port 30080`. */
function clientsOf({entry, code}: Finding): string | undefined {
  const isOther = entry !== undefined && entry.kind !== 'clusterIP' && ['ST202', 'ST203', 'ST204', 'ST206'].includes(code);
  return isOther ? `clients of ${entryText(entry)}` : undefined;
}

/** A rule that is not kube-proxy's takes, drops or refuses packets, perhaps of some pods alone. */
function isOfOtherRules({code, senders, share}: Finding): boolean {
  return senders !== undefined && share !== undefined && ['ST213', 'ST303', 'ST401', 'ST402'].includes(code);
}

const affectsAll: ReadonlySet<Variant> = new Set(['no-service-works', 'never-ran', 'forwards-nothing']);

/** A pod that the Service sends back to itself gets no reply. */
function isOfItself({variant, endpoint, endpoints, pod}: Finding): boolean {
  return variant === 'to-itself' && endpoint !== undefined && endpoints !== undefined && pod !== undefined;
}

function placeOf(finding: Finding): string {
  const {node, family, service, port, senders, code, message} = finding;
  const others = isOfOtherRules(finding) ? [code, senders?.text, throughEntry(finding.entry), service === undefined ? message : ''] : [];
  return JSON.stringify([node, family, service, port?.name, port?.protocol, isOfItself(finding), clientsOf(finding), ...others]);
}

/** Running pods with an address of their own: a packet from one of these was walked. */
function clientsAmong(pods: readonly PodObject[] | null, family: Family): number | undefined {
  if (pods === null) return undefined;
  return pods.filter(({metadata, spec, status}) => {
    if (status?.phase !== 'Running' || metadata.deletionTimestamp !== undefined || spec?.hostNetwork === true) return false;
    const addresses = [status.podIP, ...(status.podIPs ?? []).map(({ip}) => ip)].filter(ip => ip !== undefined);
    return addresses.some(ip => ip.includes(':') === (family === 'IPv6'));
  }).length;
}

/** What follows `41 pods on node-a`, and which share of the connections is lost; null where that is not known. */
function effectOf(findings: readonly Finding[]): Omit<Hits, 'pods'> | null {
  const [first] = findings;
  if (first === undefined) return null;
  const {service, family, code} = first;
  const name = nameOf(first);
  if (first.share !== undefined && (service === undefined || isOfOtherRules(first)))
    return {
      share: first.share,
      verb: 'have',
      effect: `${first.isShareOfOne === true && first.share < 0.999 ? 'a part of the connections' : partText(first.share)} for ${name}${throughEntry(first.entry)} ${code === 'ST401' ? 'taken by another rule' : 'refused or dropped'}`,
    };
  if (service === undefined)
    return {share: 1, effect: `cannot reach any Service${family === 'IPv6' ? ' over IPv6' : ''}, nor can clients from outside`};
  const share = Math.min(
    1,
    findings.reduce((sum, finding) => sum + (finding.share ?? 0), 0),
  );
  if (isOfItself(first)) {
    const own = 1 / Math.max(1, first.endpoints ?? 1);
    return {share: own, verb: 'lose', effect: `${partText(own)} for ${name}: those that come back to the sender`};
  }
  if (findings.some(({code}) => code === 'ST201')) return {share: 1, effect: `cannot connect to ${name}`};
  const left = placesOf(findings, ['ST202']);
  const none = left.length === 0 ? '' : `${someOf(left, {max: 2})} ${left.length === 1 ? 'gets' : 'get'} none from here`;
  // What IPVS forwards without a translation arrives, and the pod drops it.
  const wrong = placesOf(
    findings.filter(({variant}) => variant !== 'dropped-by-pod'),
    ['ST203', 'ST204'],
  );
  const kind = findings.some(({code}) => code === 'ST204') ? 'to a wrong address' : `to ${someOf(wrong, {max: 2})}`;
  if (share === 0 && findings.every(({code}) => code === 'ST214'))
    return {share, verb: 'send', effect: `no connection for ${name} to one of its endpoints`};
  if (share === 0)
    return left.length === 0
      ? null
      : {share, verb: 'send', effect: `no connection for ${name} to ${someOf(left, {max: 2})}${ofAll(findings, left.length)}`};
  const part = partText(share);
  if (findings.every(({code}) => code === 'ST214')) return {share, verb: 'lose', effect: `${part} for ${name}`};
  const effect = `${part} for ${name} ${wrong.length === 0 ? 'refused or dropped' : kind}`;
  return {share, verb: wrong.length === 0 ? 'have' : 'send', effect: none === '' ? effect : `${effect}; ${none}`};
}

/** `, 1 of 3 endpoints`. */
function ofAll(findings: readonly Finding[], number: number): string {
  const total = findings.find(({endpoints}) => endpoints !== undefined)?.endpoints;
  return total === undefined ? '' : `, ${number} of ${plural(total, 'endpoint')}`;
}

/** `2 of 3 connections`, where the share is such a fraction. */
function partText(share: number): string {
  if (share > 0.999) return 'all connections';
  for (let of = 2; of <= 20; of++) {
    const part = Math.round(share * of);
    if (part > 0 && Math.abs(share - part / of) < 0.0005) return `${part} of ${of} connections`;
  }
  return `${Math.round(share * 1000) / 10}% of the connections`;
}

/** The pods, or else the addresses, of the endpoints that findings with these codes are about. */
function placesOf(findings: readonly Finding[], codes: readonly string[]): readonly string[] {
  const own = findings.filter(({code}) => codes.includes(code));
  return [...new Set(own.flatMap(({endpoint, pod}) => (endpoint === undefined ? [] : [pod ?? endpoint])))];
}

/** Who notices an error that no packet of a pod was walked for, by what it is about: no more is told than the finding itself shows. */
function hitsOfClients(finding: Finding): Hits {
  const {code, variant, entry} = finding;
  // An agent may send any text as a variant.
  const {who, effect, share} = byVariant.get(variant) ?? byCode[code] ?? anything;
  const name = nameOf(finding);
  const {hitSenders = []} = finding;
  const clients =
    who ?? (hitSenders.length > 0 ? someOf(hitSenders, {max: 3}) : entry === undefined ? 'clients' : `clients of ${entryText(entry)}`);
  const text = effect.replace('NAME', () => name).replace('ENDPOINT', () => finding.endpoint ?? 'an address');
  return {who: clients, effect: text, share};
}

/** `shop/web:http`, `3 Service ports`. */
function nameOf({service, port, affects = []}: Finding): string {
  if (service !== undefined) return servicePortText(service, port);
  const names = affects.flatMap(one => one.ports.map(name => servicePortText(one, {name})));
  return names.length === 1 ? (names[0] ?? '') : names.length === 0 ? 'Services' : plural(names.length, 'Service port');
}

interface Effect {
  /** Left out where the entry says it. */
  readonly who?: string;
  /** What follows them in a sentence. */
  readonly effect: string;
  readonly share?: number;
}

/** An error loses packets, refuses them, or sends them to a wrong place. */
const anything: Effect = {effect: 'lose connections for NAME'};

const unpromised: Effect = {effect: 'are not served as the API promises for NAME'};
const noReply = 'get no reply from NAME';
const unmasqueraded: Effect = {who: 'clients whose packets must be masqueraded', effect: 'may get no reply'};

const ofVariants: Readonly<Partial<Record<Variant, Effect>>> = {
  'served-without-local-endpoint': {effect: 'reach endpoints of NAME where packets should be dropped', share: 0},
  'not-dropped': {effect: 'have packets for NAME reach no endpoint, where they should be dropped', share: 0},
  'ranges-not-enforced': {who: 'clients outside loadBalancerSourceRanges', effect: 'get in to NAME', share: 0},
  'to-itself': {who: 'pods that are sent back to themselves', effect: noReply},
  masqueraded: {effect: "reach NAME with the node's address in place of their own", share: 0},
  'of-api-server': {who: 'clients of the API server', effect: 'are sent to NAME', share: 1},
  'of-pods': {who: 'clients of these pods', effect: 'may reach the other one'},
  'no-service-works-for-node': {who: 'processes of the node', effect: 'cannot reach any Service', share: 1},
  'lacks-entry': {effect: 'cannot connect to NAME where the map has no entry'},
  'lacks-backend': {effect: 'send no connection for NAME to ENDPOINT', share: 0},
  'has-backend': {effect: 'have connections for NAME sent to ENDPOINT'},
  'lost-host-port': {who: 'clients of the host port', effect: 'do not reach its pod', share: 1},
  'address-of-no-node': {who: 'clients whose packets get that address', effect: noReply},
  unmasqueraded,
  'no-refusal': {who: 'clients of Services without endpoints', effect: 'wait until they time out', share: 0},
};
const byVariant = new Map<string | undefined, Effect>(Object.entries(ofVariants));

const byCode: Readonly<Record<string, Effect>> = {
  ST106: {who: 'clients of that address', effect: 'are sent to NAME'},
  ST203: {effect: 'have connections for NAME sent to ENDPOINT'},
  ST204: {effect: 'have connections for ENDPOINT sent to a wrong address'},
  ST205: {effect: 'still get answers at what the API no longer has of NAME', share: 0},
  ST206: {effect: 'cannot connect to NAME', share: 1},
  ST207: {effect: 'reach other endpoints of NAME than its traffic policy says', share: 0},
  ST210: {effect: 'are not treated as the loadBalancerSourceRanges of NAME say'},
  ST211: {effect: noReply},
  ST212: {effect: 'wait until they time out for NAME, in place of a refusal', share: 0},
  ST302: unmasqueraded,
  ST304: {who: 'clients of node ports', effect: 'cannot connect to NAME', share: 1},
  ST305: {effect: 'cannot connect to NAME', share: 1},
  ST401: {effect: 'have packets for NAME taken by another rule'},
  ST501: {effect: 'may have connections for NAME sent elsewhere'},
  ST507: {effect: 'find no local endpoint of NAME'},
  ST701: unpromised,
  ST702: unpromised,
  ST703: unpromised,
  ST801: {effect: 'may have connections for NAME lost, or sent elsewhere'},
  ST805: {effect: 'cannot connect to NAME', share: 1},
  ST803: {who: 'all who send to that address', effect: 'have packets dropped at every port without a Service'},
};
