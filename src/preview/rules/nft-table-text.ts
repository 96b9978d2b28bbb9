import {setComments, type SetShape} from '../../expect/nftables/base-sets.ts';
import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import {localhostCounter, rejectedOnLocalhost} from '../../expect/nftables/localhost-node-ports.ts';
import {commentsObjects} from '../../expect/nftables/nft-versions.ts';
import type {NftChainText, NftSetText, NftTableText} from '../../model/expected-rules.ts';
import type {NftHook} from '../../model/nft-ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {priorityText} from '../../parse/nftables/nft-priority.ts';

/** The table `kube-proxy` of one family, with the objects of the chosen Service ports. */
export function nftTableText(expected: ExpectedTable, isWanted: (port: ServicePort) => boolean): NftTableText {
  const objects = expected.ports.filter(({port}) => isWanted(port)).map(item => expected.objectsOf(item));
  const withComments = commentsObjects(expected.context.version);
  const elements = Map.groupBy(
    objects.flatMap(one => one.elements),
    ({set}) => set,
  );
  const elementsOf = (name: string): readonly string[] => {
    if (name === 'nodeport-ips') return [...(expected.set(name)?.elements.keys() ?? [])];
    const own = (elements.get(name) ?? []).map(({key, value, comment}) => [key, {value, comment}] as const);
    return [...new Map(own)].map(
      ([key, {value, comment}]) => `${key}${comment === null ? '' : ` comment "${comment}"`}${value === null ? '' : ` : ${value}`}`,
    );
  };
  const set = (shape: SetShape): NftSetText => ({
    kind: shape.valueTypes === null ? 'set' : 'map',
    name: shape.name,
    properties: [
      ...propertiesOf(shape),
      ...(withComments && setComments[shape.name] !== undefined ? [`comment "${setComments[shape.name]}"`] : []),
    ],
    elements: elementsOf(shape.name),
  });
  return {
    table: expected.id,
    comment: withComments ? 'rules for kube-proxy' : null,
    counters: rejectedOnLocalhost(expected.context).map(localhostCounter),
    sets: [...expected.baseSets, ...objects.flatMap(({sets}) => sets)].map(set),
    chains: [
      ...expected.baseRules.map(({name, base, rules}) => baseChain({name, base, rules}, withComments)),
      ...objects.flatMap(({chains}) => [...chains].map(([name, rules]) => ({name, rules, properties: []}))),
    ],
  };
}

function baseChain(
  {name, base, rules}: {readonly name: string; readonly base: NftHook | null; readonly rules: readonly string[]},
  withComments: boolean,
): NftChainText {
  if (base !== null) {
    const hook = `type ${base.type} hook ${base.hook} priority ${priorityText(base.priority, base.hook)}; policy ${base.policy};`;
    return {name, rules, properties: [hook]};
  }
  const isHelper = name === 'reject-chain' && withComments;
  return {name, rules, properties: isHelper ? ['comment "helper for @no-endpoint-services / @no-endpoint-nodeports"'] : []};
}

/** The kernel sets the size of a set that rules add to. */
function propertiesOf({keyTypes, valueTypes, flags, timeout}: SetShape): readonly string[] {
  const type = `type ${keyTypes.join(' . ')}${valueTypes === null ? '' : ` : ${valueTypes.join(' . ')}`}`;
  if (timeout !== null) return [type, 'size 65535', 'flags dynamic,timeout', `timeout ${durationText(timeout)}`];
  return flags.length === 0 ? [type] : [type, `flags ${flags.join(',')}`];
}

/** `10m`, `3h`, `1d2h`. */
function durationText(seconds: number): string {
  const parts: string[] = [];
  let rest = seconds;
  for (const [unit, length] of [
    ['d', 86_400],
    ['h', 3600],
    ['m', 60],
    ['s', 1],
  ] as const) {
    const count = Math.floor(rest / length);
    if (count > 0) parts.push(`${count}${unit}`);
    rest -= count * length;
  }
  return parts.join('');
}
