/** The rules of one family on one node that depend on the Services, by chain. */
export interface RuleSet {
  filter: {
    externalServices: string[];
    nodePorts: string[];
    proxyFirewall: string[];
    services: string[];
  };
  nat: {
    nodePorts: string[];
    services: string[];
    /** The chains of single Service ports and endpoints. */
    chains: Chain[];
  };
}

/** A chain's rules are made when they are written: all of them at once would be gigabytes. */
export interface Chain {
  name: string;
  rules: () => string[];
}

export function emptyRuleSet(): RuleSet {
  return {
    filter: {externalServices: [], nodePorts: [], proxyFirewall: [], services: []},
    nat: {nodePorts: [], services: [], chains: []},
  };
}
