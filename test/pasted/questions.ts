import type {Question} from './ask.ts';

/** Questions that reach as much of a node's rules as there is: each destination with its port, from every kind of client, and some that no rule is about. */
export function questionsFor(dump: string, family: 'IPv4' | 'IPv6'): readonly Question[] {
  const sources =
    family === 'IPv4' ? ['10.244.11.4', '198.51.100.9', '172.18.0.11'] : ['fd00:10:244:11::9', '2001:db8::9', 'fc00:f853:ccd:e793::11'];
  const node = family === 'IPv4' ? '172.18.0.11' : 'fc00:f853:ccd:e793::11';
  const elsewhere = family === 'IPv4' ? '9.9.9.9' : '2620:fe::fe';
  const places = [
    ...destinationsOf(dump, node),
    {destination: elsewhere, port: '443', protocol: 'tcp'},
    {destination: node, port: '22', protocol: 'tcp'},
  ];
  return places.flatMap((place, index) =>
    sources.filter((_, at) => places.length < 12 || at === index % sources.length).map(source => ({source, ...place})),
  );
}

function destinationsOf(dump: string, node: string): readonly Omit<Question, 'source'>[] {
  const found = new Map<string, Omit<Question, 'source'>>();
  for (const line of dump.split('\n')) {
    const port = / --dport (\d+)(?= )/.exec(line)?.[1];
    const protocol = / -p (tcp|udp)/.exec(line)?.[1];
    if (port === undefined || protocol === undefined) continue;
    const address = / -d ([^ /]+)/.exec(line)?.[1] ?? (line.startsWith('-A KUBE-NODEPORTS') ? node : null);
    if (address !== null) found.set(`${address} ${port} ${protocol}`, {destination: address, port, protocol});
  }
  for (const [, address = '', protocol = '', port = ''] of dump.matchAll(/([\da-f.:]+) \. (tcp|udp) \. (\d+)(?: comment "[^"]*")? :/g))
    found.set(`${address} ${port} ${protocol}`, {destination: address, port, protocol});
  const all = [...found.values()];
  const step = Math.max(1, Math.floor(all.length / 10));
  return all.filter((_, index) => index % step === 0);
}
