import {commonTables, redactNftName, redactObjectName} from './nft-names.ts';
import type {Replacements} from './replacements.ts';

const parts = /(comment "[^"]*"|prefix "[^"]*"|(?:service|local|external|firewall|endpoint|affinity)-[A-Z2-7]{8}-[^\s{},;:]+)/;

/** The text output of `nft list`. Keywords of nft, numbers and interfaces stay; tables, chains, sets and other objects get other names. */
export function redactNftText(text: string, replacements: Replacements): string {
  let isKubeProxys = false;
  return text
    .split('\n')
    .map(line => {
      const [, start = '', table = '', rest = ''] = /^(table \w+ )([^\s{]+)(.*)$/.exec(line) ?? [];
      if (table !== '') {
        isKubeProxys = table === 'kube-proxy';
        return `${start}${commonTables.has(table) ? table : replacements.setName(table)}${rest}`;
      }
      const redacted = line
        .split(parts)
        .map((part, index) => (index % 2 === 0 ? replacements.text.replace(part) : redactPart(part, replacements)))
        .join('');
      return withoutNames(redacted, name => redactObjectName(name, isKubeProxys, replacements), replacements);
    })
    .join('\n');
}

function withoutNames(line: string, rename: (name: string) => string, {words}: Replacements): string {
  const fresh = (name: string): string => (ofService.test(name) ? name : rename(name));
  return line
    .replace(
      /^(\s*(?:chain|set|map|counter|quota|limit|flowtable|synproxy|secmark|ct \w+) )([^\s"{]+)(?= \{)/,
      (_, kind, name) => kind + fresh(name),
    )
    .replace(/(\b(?:jump|goto) |@|\b(?:counter|quota|limit|synproxy) name "?)([A-Za-z_][\w./-]*)/g, (_, kind, name) => kind + fresh(name))
    .replace(
      /(\b(?:helper set|timeout set|secmark set|skuid|skgid|cgroupv2 level \d+|ct label(?: set)?|rtclassid|(?:iif|oif)group) (?:!= )?)"([^"]*)"/g,
      (_, kind, name) => `${kind}"${words.comment(name)}"`,
    );
}

const ofService = /^(?:service|local|external|firewall|endpoint|affinity)-[A-Z2-7]{8}-/;

function redactPart(part: string, replacements: Replacements): string {
  if (!part.endsWith('"')) return redactNftName(part, replacements);
  const quote = part.indexOf('"');
  return part.slice(0, quote) + replacements.words.comment(part.slice(quote));
}
