import type {NodeContext} from '../node-context.ts';
import {matchesInterfaceName} from './nft-versions.ts';
import type {RuleSpelling} from './rule-spelling.ts';

/** The match for traffic of this node's pods, or for all other traffic; null if kube-proxy cannot detect pods. */
export function detects({detector, version}: NodeContext, local: boolean, spelling: Pick<RuleSpelling, 'source' | 'link'>): string | null {
  const link = matchesInterfaceName(version) ? 'iifname' : 'iif';
  switch (detector.kind) {
    case 'cidr':
      return spelling.source(detector.cidr, !local);
    case 'bridge':
      return spelling.link(link, detector.name, !local);
    case 'prefix':
      return spelling.link(link, `${detector.name}*`, !local);
    case 'none':
      return null;
  }
}
