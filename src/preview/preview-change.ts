import type {Cause, PreviewChange, PreviewOutcome, PreviewSource} from '../model/preview.ts';
import type {SourceKind} from '../analyze/outcomes/sources.ts';
import type {ProbeOutcome, CauseCase} from './effect.ts';

/** A packet whose outcome changes. */
export interface ChangeCase extends Pick<CauseCase, 'item' | 'probe' | 'was' | 'is' | 'effect'> {
  readonly node: string;
  readonly cause: Cause;
}

/** The change without the rules behind it, which would keep a node's dumps in memory. */
export function previewChange({node, item, probe, was, is, effect, cause}: ChangeCase): PreviewChange {
  const {port} = item;
  const {packet, source, who} = probe;
  return {
    node,
    effect,
    cause,
    entry: probe.entry,
    service: {namespace: port.namespace, name: port.service},
    port: {name: port.portName, protocol: port.protocol, port: port.port},
    source: {kind: sourceKinds[source.kind], address: source.address, ...(who === undefined ? {} : {senders: who})},
    packet: {
      family: packet.family,
      source: packet.source.text,
      destination: packet.destination.text,
      port: packet.port,
      protocol: packet.protocol,
    },
    before: outcomesOf(was),
    after: outcomesOf(is),
  };
}

const sourceKinds: Readonly<Record<SourceKind, PreviewSource>> = {
  pod: 'pod',
  'remote-pod': 'remotePod',
  'other-node': 'external',
  node: 'node',
  outside: 'external',
  allowed: 'external',
  'other-range': 'external',
  'own-address': 'node',
  endpoint: 'endpoint',
};

export function outcomesOf({path, served}: ProbeOutcome): readonly PreviewOutcome[] {
  const ends = [...served].map(([destination, {probability, masquerade}]) => ({
    verdict: 'accept' as const,
    destination,
    probability,
    masquerade,
  }));
  const dialed =
    [...served.values()].reduce((sum, {probability}) => sum + probability, 0) -
    [...path.destinations.values()].reduce((sum, {probability}) => sum + probability, 0);
  const other = [
    ['accept', path.passed - dialed],
    ['reject', path.rejected],
    ['drop', path.dropped],
    ['undecided', path.undecided],
  ] as const;
  return [
    ...ends,
    ...other
      .filter(([, probability]) => probability > 1e-9)
      .map(([verdict, probability]) => ({verdict, destination: null, probability, masquerade: false})),
  ];
}
