import type {Finding, Hits, Variant} from '../model/finding.ts';
import {entryText} from '../model/service-port.ts';
import {plural, servicePortText} from '../model/text.ts';

/** Who notices an error that no packet of a pod was walked for, by what it is about: no more is told than the finding itself shows. */
export function hitsOfClients(finding: Finding): Hits {
  const {code, variant, entry} = finding;
  // An agent may send any text as a variant.
  const {who, effect, share} = byVariant.get(variant) ?? byCode[code] ?? anything;
  const name = nameOf(finding);
  const clients = who ?? (entry === undefined ? 'clients' : `clients of ${entryText(entry)}`);
  const text = effect.replace('NAME', () => name).replace('ENDPOINT', () => finding.endpoint ?? 'an address');
  return {who: clients, effect: text, ...(share === undefined ? {} : {share})};
}

/** `shop/web:http`, `3 Service ports`. */
function nameOf({service, port, affects = []}: Finding): string {
  if (service !== undefined) return servicePortText(service, port);
  const ports = affects.reduce((sum, {ports: own}) => sum + own.length, 0);
  return ports === 0 ? 'Services' : plural(ports, 'Service port');
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

const ofVariants: Readonly<Partial<Record<Variant, Effect>>> = {
  'served-without-local-endpoint': {effect: 'reach endpoints of NAME where packets should be dropped', share: 0},
  'ranges-not-enforced': {who: 'clients outside loadBalancerSourceRanges', effect: 'get in to NAME', share: 0},
  'to-itself': {who: 'pods that are sent back to themselves', effect: noReply},
  'of-api-server': {who: 'clients of the API server', effect: 'are sent to NAME', share: 1},
  'of-pods': {who: 'clients of these pods', effect: 'may reach the other one'},
  'no-service-works-for-node': {who: 'processes of the node', effect: 'cannot reach any Service', share: 1},
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
  ST210: {effect: 'get in to NAME, or do not, against its loadBalancerSourceRanges'},
  ST211: {effect: noReply},
  ST212: {effect: 'wait until they time out for NAME, in place of a refusal', share: 0},
  ST302: {who: 'clients whose packets must be masqueraded', effect: 'may get no reply'},
  ST304: {who: 'clients of node ports', effect: 'cannot connect to NAME', share: 1},
  ST305: {effect: 'cannot connect to NAME', share: 1},
  ST401: {effect: 'have packets for NAME taken by another rule'},
  ST501: {effect: 'may have connections for NAME sent elsewhere'},
  ST507: {effect: 'find no local endpoint of NAME'},
  ST701: unpromised,
  ST702: unpromised,
  ST703: unpromised,
  ST803: {who: 'all who send to that address', effect: 'have packets dropped at every port without a Service'},
};
