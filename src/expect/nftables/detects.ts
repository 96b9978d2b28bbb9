import type {NodeContext} from '../node-context.ts';
import {matchesInterfaceName} from './nft-versions.ts';

/** How the match for pods is written: as statements of a rule, or as text. */
interface DetectorWriter<Result> {
  source(network: string, isNegated: boolean): Result;
  link(key: 'iif' | 'iifname', name: string, isNegated: boolean): Result;
}

/** Writes the match for traffic of this node's pods, or for all other traffic; null if kube-proxy cannot detect pods (`detectsPods`). */
export function detects<Result>({detector, version}: NodeContext, local: boolean, writer: DetectorWriter<Result>): Result | null {
  const link = matchesInterfaceName(version) ? 'iifname' : 'iif';
  switch (detector.kind) {
    case 'cidr':
      return writer.source(detector.cidr, !local);
    case 'bridge':
      return writer.link(link, detector.name, !local);
    case 'prefix':
      return writer.link(link, `${detector.name}*`, !local);
    case 'none':
      return null;
  }
}

export function detectsPods({detector}: NodeContext): boolean {
  return detector.kind !== 'none';
}
