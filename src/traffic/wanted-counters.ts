import type {Family} from '../model/family.ts';
import type {ConntrackOptions} from '../parse/conntrack-counts.ts';
import type {NatCounterOptions} from '../parse/iptables/nat-counters.ts';
import {conntrackDestinations} from './destinations.ts';
import type {NodeSurvey} from './node-survey.ts';

/** What to read from the table nat of one family. */
export function wantedChains({ports}: NodeSurvey, family: Family): NatCounterOptions {
  const own = ports.filter(({port}) => port.family === family);
  return {
    byName: new Map(own.map(({port, key}) => [port.servicePortName, key])),
    byHash: new Map(own.map(({port, key}) => [port.hash, key])),
  };
}

/** What to read from conntrack. Only nftables mode needs to identify connections. */
export function wantedConnections(survey: NodeSurvey): ConntrackOptions {
  return {ports: conntrackDestinations(survey), identify: survey.mode === 'nftables'};
}
