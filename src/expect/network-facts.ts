import {once} from './api-index.ts';
import type {NetworkFacts} from '../model/node/network-facts.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {parseConnectionStatistics, parseLinks, parsePolicyRules, parseRoutes, parseSysctls} from '../parse/network-facts.ts';

/** What was read of a node beside its rules. A file is parsed when something asks for it: routes can be many. */
export function networkFacts(node: NodeDump): NetworkFacts {
  return {
    get links() {
      return linksOf(node);
    },
    get routes() {
      return routesOf(node);
    },
    get policyRules() {
      return policyRulesOf(node);
    },
    get sysctls() {
      return sysctlsOf(node);
    },
    get connections() {
      return connectionsOf(node);
    },
    get connectionsAfter() {
      return connectionsAfter(node);
    },
  };
}

/** Both list all interfaces; the first has more details. */
const linksOf = once((node: NodeDump) => parseLinks(textOf(node, 'links.json')) ?? parseLinks(textOf(node, 'addresses.json')));
const routesOf = once((node: NodeDump) => parseRoutes(textOf(node, 'routes.json')));
const policyRulesOf = once((node: NodeDump) => ({
  IPv4: parsePolicyRules(textOf(node, 'ip-rules.json'), 'IPv4'),
  IPv6: parsePolicyRules(textOf(node, 'ip6-rules.json'), 'IPv6'),
}));
const sysctlsOf = once((node: NodeDump) => parseSysctls(`${textOf(node, 'sysctls')}\n${textOf(node, 'interface-sysctls')}`));
const connectionsOf = once((node: NodeDump) => parseConnectionStatistics(textOf(node, 'conntrack-stats')));
const connectionsAfter = once((node: NodeDump) => parseConnectionStatistics(textOf(node, 'conntrack-stats-after')));

function textOf(node: NodeDump, file: string): string {
  return node.read(file)?.toString('utf8') ?? '';
}
