import type {LiveNode} from './live-node.ts';

/** Something that is done to the rules of a node by hand, and what is to be found then. */
export interface Breakage {
  readonly what: string;
  readonly node: string;
  readonly apply: (node: LiveNode) => void;
  readonly expected: Readonly<Record<string, unknown>>;
}

const web = {namespace: 'shop', name: 'web'};

export const breakages: readonly Breakage[] = [
  {
    what: 'an endpoint that is gone',
    node: 'node-a',
    apply: node => {
      const chain = chainOf(node, 'shop/web:http');
      deleteRules(node, chain, rule => rule.includes('-> 10.244.11.5:8080'));
    },
    expected: {code: 'ST202', severity: 'error', service: web, endpoint: '10.244.11.5:8080'},
  },
  {
    what: 'an endpoint that is no more',
    node: 'node-b',
    apply: node => {
      const stale = 'KUBE-SEP-STALE7777777777A';
      node.run('iptables', '-t', 'nat', '-N', stale);
      node.run('iptables', '-t', 'nat', '-A', stale, '-p', 'tcp', '-j', 'DNAT', '--to-destination', '10.244.12.99:8080');
      node.run(
        'iptables',
        '-t',
        'nat',
        '-I',
        chainOf(node, 'shop/web:http'),
        '2',
        ...'-m statistic --mode random --probability 0.25 -j'.split(' '),
        stale,
      );
    },
    expected: {code: 'ST203', severity: 'error', service: web, endpoint: '10.244.12.99:8080'},
  },
  {
    what: 'the jump to all Services',
    node: 'node-c',
    apply: node => deleteRules(node, 'PREROUTING', rule => rule.endsWith('-j KUBE-SERVICES')),
    expected: {code: 'ST301', severity: 'error'},
  },
  {
    what: 'a Service that is gone altogether',
    node: 'node-b',
    apply: node => {
      const chain = chainOf(node, 'shop/web:http');
      deleteRules(node, 'KUBE-SERVICES', rule => rule.includes('"shop/web:http '));
      for (const flag of ['-F', '-X']) node.run('iptables', '-t', 'nat', flag, chain);
    },
    expected: {code: 'ST201', severity: 'error', service: web},
  },
];

/** The chain with the endpoints of a Service port. */
export function chainOf(node: LiveNode, port: string): string {
  const rule = rulesOf(node, 'KUBE-SERVICES').find(text => text.includes(`"${port} cluster IP"`));
  const chain = /-j (KUBE-SVC-\w+)$/.exec(rule ?? '')?.[1];
  if (chain === undefined) throw new Error(`${node.name} has no chain for ${port}`);
  return chain;
}

/** Deletes the rules of a chain of nat that are meant; there has to be one. */
export function deleteRules(node: LiveNode, chain: string, isMeant: (rule: string) => boolean): void {
  const numbers = rulesOf(node, chain).flatMap((rule, index) => (isMeant(rule) ? [index + 1] : []));
  if (numbers.length === 0) throw new Error(`${node.name} has no such rule in ${chain}`);
  for (const number of numbers.reverse()) node.run('iptables', '-t', 'nat', '-D', chain, String(number));
}

function rulesOf(node: LiveNode, chain: string): readonly string[] {
  return node
    .run('iptables', '-t', 'nat', '-S', chain)
    .split('\n')
    .filter(line => line.startsWith('-A '));
}
