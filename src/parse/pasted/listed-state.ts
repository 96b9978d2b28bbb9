import {ipvsDevice} from '../ipvs/kube-ipvs0.ts';

/**
 * Puts what `ipset list` prints into the words of `ipset save`, line by line. A list with fewer members than it says is left out: it is not
 * known what the set has.
 */
export function asSavedSets(lines: readonly string[]): readonly string[] {
  const made = [...lines];
  for (const [start, line] of lines.entries()) {
    const name = /^\s*Name: (\S+)\s*$/.exec(line)?.[1];
    if (name === undefined) continue;
    const length = lines.slice(start, start + maxHeading).findIndex(text => /^\s*Members:\s*$/.test(text));
    if (length < 0) continue;
    const heading = lines.slice(start, start + length).join('\n');
    const rest = lines.slice(start + length + 1);
    const end = rest.findIndex(text => !isMember.test(text));
    const members = end < 0 ? rest : rest.slice(0, end);
    const count = /^\s*Number of entries: (\d+)/m.exec(heading)?.[1];
    if (count !== undefined && Number(count) !== members.length) continue;
    made[start] = `create ${name} ${/^\s*Type: (\S+)/m.exec(heading)?.[1] ?? ''} ${/^\s*Header: (.*)/m.exec(heading)?.[1] ?? ''}`;
    for (const [at, member] of members.entries()) made[start + length + 1 + at] = `add ${name} ${member.trim()}`;
  }
  return made;
}

/** Of the lines between the name of a set and its members. */
const maxHeading = 10;

const isMember = /^\s*[\da-fA-F][\w.:,/-]*(?:\s+(?:comment|timeout|nomatch|packets)\b.*)?\s*$/;

/** The addresses of kube-ipvs0 in what `ip addr` prints, as `ip -j addr` has them; null if it does not print them all. */
export function listedDevice(lines: readonly string[]): string | null {
  const start = lines.findIndex(line => new RegExp(`^\\s*\\d+: ${ipvsDevice}: <`).test(line));
  if (start < 0) return null;
  const rest = lines.slice(start + 1);
  const end = rest.findIndex(line => !/^\s*(?:link\/|inet6? |valid_lft |altname )/.test(line));
  const own = end < 0 ? rest : rest.slice(0, end);
  if (end >= 0 && /^\s*(?:\.{3,}|…)/.test(rest[end] ?? '')) return null;
  const addresses = own.flatMap(line => /^\s*inet6? ([\da-f.:]+)\/(\d+)/.exec(line)?.slice(1, 3) ?? []);
  const infos = addresses.flatMap((local, at) => (at % 2 === 0 ? [{local, prefixlen: Number(addresses[at + 1])}] : []));
  return JSON.stringify([{ifname: ipvsDevice, addr_info: infos}]);
}
