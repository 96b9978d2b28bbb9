import {families} from '../../model/family.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import {expectedSide} from '../sides.ts';
import type {AdviceCase, NodeAdvice} from './advice-case.ts';

/** Hazards of a change of version or settings within one mode. */
export function sameMode({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  if (configAfter.mode.value !== 'nftables') return [];
  return [...emptyChains(setup.config, configAfter), ...startsToListen({setup, configAfter})];
}

/** 1.33 to 1.35 keep the endpoint chains that they find, and 1.36 empties them. */
function emptyChains({version: {value: before}}: ProxyConfig, {version: {value: after}}: ProxyConfig): readonly NodeAdvice[] {
  if (before.minor < 36 || after.minor > 35 || after.minor < 33) return [];
  return [
    {
      ...{topic: 'switch', id: 'empty-endpoint-chains', effect: 'lost', ofCluster: true},
      reason: `kube-proxy ${after.text} keeps the endpoint chains that it finds, and ${before.text} left those of Services without affinity empty: connections to these Services fail for up to an hour`,
      remedy: 'Delete the tables before it starts: nft delete table ip kube-proxy; nft delete table ip6 kube-proxy.',
    },
  ];
}

/** kubernetes#142183. */
function startsToListen({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  const listens = (config: ProxyConfig): readonly (boolean | undefined)[] =>
    families.map(family => expectedSide({setup, view: setup.view, config, family, besideOthers: false}).context.listensOnLocalhost);
  const [before, after] = [listens(setup.config), listens(configAfter)];
  if (!before.some((was, index) => was === false && after[index] === true)) return [];
  return [
    {
      ...{topic: 'switch', id: 'localhost-node-ports', effect: 'lost'},
      reason:
        'kube-proxy cannot write its tables when node ports on loopback addresses are allowed after they were rejected (kubernetes#142183)',
      remedy: 'Delete the tables before it starts: nft delete table ip kube-proxy; nft delete table ip6 kube-proxy.',
    },
  ];
}
