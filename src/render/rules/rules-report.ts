import type {ExpectedRules, FamilyRules, IpvsText, NftChainText, NftSetText, NftTableText, RuleTable} from '../../model/expected-rules.ts';
import {escapeUnsafe} from '../renderer.ts';
import {schemaVersion, toJson} from '../json.ts';

/** The formats of `rules`: each can be loaded by a tool. */
export const rulesRenderers: Readonly<Record<RulesFormat, (rules: ExpectedRules) => string>> = {
  'iptables-save': rules => render(rules, family => iptablesSave(family.iptables, rules.isWhole)),
  nft: rules => render(rules, ({nftables}) => (nftables === null ? '' : nftText(nftables))),
  'ipvsadm-save': rules => escapeUnsafe(rules.families.flatMap(({ipvs}) => ipvs?.virtualServers ?? []).join('\n')),
  json: ({node, proxyMode, kubeProxyVersion, notes, families}) =>
    toJson({schemaVersion, node, proxyMode, kubeProxyVersion, notes, families: families.map(familyObject)}),
};

export type RulesFormat = 'iptables-save' | 'nft' | 'ipvsadm-save' | 'json';

/** The format of a mode's rules. */
export const formatOfMode: Readonly<Record<string, RulesFormat>> = {iptables: 'iptables-save', nftables: 'nft', ipvs: 'ipvsadm-save'};

/** The formats that apply to a mode; IPVS mode also has iptables rules. */
export const formatsOfMode: Readonly<Record<string, readonly RulesFormat[]>> = {
  iptables: ['iptables-save', 'json'],
  nftables: ['nft', 'json'],
  ipvs: ['ipvsadm-save', 'iptables-save', 'json'],
};

function render({node, proxyMode, kubeProxyVersion, families, notes}: ExpectedRules, text: (family: FamilyRules) => string): string {
  const heading = (family: string): string => `# ${family}: what kube-proxy ${kubeProxyVersion} in ${proxyMode} mode writes on ${node}`;
  const remarks = notes.map(note => `# ${note}\n`).join('');
  // nft indents with tabs.
  return (remarks + families.map(one => `${heading(one.family)}\n${text(one)}`).join('\n')).split('\t').map(escapeUnsafe).join('\t');
}

/** Built-in chains are not declared: that would set their policy. */
function iptablesSave(tables: readonly RuleTable[], isWhole: boolean): string {
  return tables
    .map(({name, chains}) => {
      const rules = chains.flatMap(chain => chain.rules);
      // To declare a shared chain, such as KUBE-SERVICES, is to empty it.
      if (!isWhole) return [`*${name}`, ...rules].join('\n');
      const declarations = chains.filter(chain => chain.name.startsWith('KUBE-')).map(chain => `:${chain.name} - [0:0]`);
      return [`*${name}`, ...declarations, ...rules, 'COMMIT'].join('\n');
    })
    .join('\n');
}

function nftText({table, comment, counters, sets, chains}: NftTableText): string {
  const parts = [
    ...counters.map(name => block(`counter ${name}`, ['packets 0 bytes 0'])),
    ...sets.map(setText),
    ...chains.map(({name, properties, rules}: NftChainText) => block(`chain ${name}`, [...properties, ...rules])),
  ];
  return `table ${table} {\n${comment === null ? '' : `\tcomment "${comment}"\n`}${parts.join('\n')}}`;
}

function setText({kind, name, properties, elements}: NftSetText): string {
  const list = elements.length === 0 ? [] : [`elements = { ${elements.join(`,\n\t\t\t     `)} }`];
  return block(`${kind} ${name}`, [...properties, ...list]);
}

function block(head: string, lines: readonly string[]): string {
  return `\t${head} {\n${lines.map(line => `\t\t${line}\n`).join('')}\t}\n`;
}

function familyObject({family, iptables, nftables, ipvs}: FamilyRules): object {
  return {
    family,
    ...(iptables.length === 0 ? {} : {iptables: iptables.map(({name, chains}) => ({table: name, chains}))}),
    nftables: nftables ?? undefined,
    ipvs: ipvs === null ? undefined : (ipvs satisfies IpvsText),
  };
}
