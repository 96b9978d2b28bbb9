import {parseChainName} from '../../expect/iptables/chain-names.ts';
import type {Rule, Ruleset} from '../../model/ruleset.ts';

/** The content of a kube-proxy comment: `shop/web:http cluster IP`. */
export interface CommentedPort {
  readonly namespace: string;
  readonly name: string;
  readonly portName: string;
  /** The part after the name: `cluster IP`, `-> 10.244.1.5:8080`. */
  readonly rest: string;
}

/** The Service port in a rule's comment; null if it names none. */
export function commentedPort(rule: Rule): CommentedPort | null {
  const comment = rule.matches.find(({name}) => name === 'comment')?.options[0]?.values[0];
  return comment === undefined ? null : parseComment(comment);
}

function parseComment(comment: string): CommentedPort | null {
  const text = comment.replace(
    /^(?:Balancing rule \d+ for|masquerade (?:LOCAL )?traffic for|pod traffic for|route LOCAL traffic for) /,
    '',
  );
  const found = /^([a-z0-9][a-z0-9.-]*)\/([a-z0-9][a-z0-9.-]*)(?::([a-z0-9-]*))?(?:\s+(.*))?$/.exec(text);
  if (found === null) return null;
  const [, namespace = '', name = '', portName = '', rest = ''] = found;
  return {namespace, name, portName, rest};
}

/** The Service ports of chains, by the 16 characters that all chains of one have in common. */
export function portsByHash(ruleset: Ruleset): ReadonlyMap<string, CommentedPort> {
  const ports = new Map<string, CommentedPort>();
  for (const chain of ruleset.tables.get('nat')?.chains.values() ?? []) {
    if (!chain.name.startsWith('KUBE-')) continue;
    const own = parseChainName(chain.name);
    for (const rule of chain.rules()) {
      const port = commentedPort(rule);
      const target = parseChainName(rule.target?.name ?? '');
      if (port === null) continue;
      if (own !== null && own.role !== 'SEP') ports.set(own.hash, port);
      if (target !== null && target.role !== 'SEP') ports.set(target.hash, port);
    }
  }
  return ports;
}
