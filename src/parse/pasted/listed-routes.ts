import {type Cidr, parseCidr} from '../../model/address.ts';

/** A row of `ip route` or `route -n`. */
interface ListedRoute {
  readonly to: Cidr;
  /** `unreachable` and the like; null of a route that leads somewhere. */
  readonly refuses: string | null;
  readonly hasGateway: boolean;
  readonly isDown: boolean;
  readonly text: string;
}

/** The routes of IPv4 that a text lists once and whole; null if it does not. */
export function listedRoutes(lines: readonly string[]): readonly ListedRoute[] | null {
  if (!lines.some(line => /^\s*(?:default|0\.0\.0\.0)\s/.test(line))) return null;
  if (lines.some(line => line.includes('|') && /\bip\s(?:-\S+\s+)*r(?:o|ou|out|oute)?\b[^|]*\||\b(?:netstat|route)\s[^|]*\|/.test(line)))
    return null;
  const routes = lines.flatMap(line => routeOf(line.trim()));
  const isOnce = new Set(routes.map(({to}) => to.text)).size === routes.length && routes.some(({to}) => to.prefix === 0);
  return isOnce ? routes : null;
}

/** Networks of pods of this node that a second route of the same list sends away. A list begins again with another default route. */
export function doubledRoutes(lines: readonly string[]): readonly string[] {
  if (!lines.some(line => line.includes(' dev '))) return [];
  const lists: ListedRoute[][] = [];
  let isList = false;
  for (const line of lines) {
    const [route] = routeOf(line.trim());
    if (route !== undefined && (!isList || route.to.prefix === 0)) lists.push([]);
    if (route !== undefined) lists.at(-1)?.push(route);
    isList = route !== undefined;
  }
  return lists.flatMap(list =>
    list.flatMap(({to, text}) => {
      const other = list.find(route => route.to.text === to.text && route.hasGateway);
      return other === undefined || !ofPods.test(text)
        ? []
        : `${to.text} is the network of pods of this node ("${text}"), and the route "${other.text}" sends it away: packets to its own pods leave the node. Another network plugin or mode left the route behind`;
    }),
  );
}

const ofPods = / dev (?:cni0|cbr0|kube-bridge|docker0) (?!.*\bvia\b)/;

function routeOf(text: string): readonly ListedRoute[] {
  const [, refuses = null, place = '', rest = ''] = ofIp.exec(text) ?? [];
  // `ip route get` prints the user.
  if (place !== '' && !/ uid \d/.test(rest)) {
    const to = parseCidr(place === 'default' ? '0.0.0.0/0' : place);
    return to === null ? [] : [{to, refuses, hasGateway: /\bvia \d/.test(rest), isDown: /\b(?:linkdown|dead)\b/.test(rest), text}];
  }
  const [, network = '', gateway = '', mask = '', flags = ''] = ofRoute.exec(text) ?? [];
  const to = parseCidr(`${network === 'default' ? '0.0.0.0' : network}/${mask}`);
  return to === null
    ? []
    : [{to, refuses: flags.includes('!') ? 'reject' : null, hasGateway: flags.includes('G') && gateway !== '', isDown: false, text}];
}

const ofIp = /^(?:(unreachable|blackhole|prohibit)\s+)?(default|\d+\.\d+\.\d+\.\d+(?:\/\d+)?)((?:\s+(?:via|dev|proto|scope)\s+\S+)+.*)$/;
const ofRoute = /^(default|\d+\.\d+\.\d+\.\d+)\s+(\S+)\s+(\d+\.\d+\.\d+\.\d+)\s+([UGHD!]+)\s+\d+\s+\d+\s+\d+\s+\S+$/;
