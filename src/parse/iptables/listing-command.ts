import type {Family} from '../../model/family.ts';

/** What a command line that stands above its output, as people paste both, says of it. */
export interface ListingCommand {
  readonly family: Family;
  /** Null for `iptables-save`, whose output names its tables. */
  readonly table: string | null;
  /** Its output went through a filter such as grep, so that rules may be missing. */
  readonly filtered: boolean;
}

/** Reads `$ sudo iptables -S -t nat | grep web`; null when a line is no such command. */
export function parseListingCommand(text: string): ListingCommand | null {
  const found = /^(?:.*[$#%>]\s+)?(?:.*\s--\s+)?(?:sudo\s+)?(?:\S*\/)?(ip6?)tables(?:-legacy|-nft)?(-save)?((?:\s.*)?)$/.exec(text);
  if (found === null || /^\s*-[AIDNP]\s/.test(text)) return null;
  const [, tool, save, rest = ''] = found;
  const [options = '', ...filters] = rest.split('|');
  if (save === undefined && !/\s-{1,2}(?:[a-zA-Z]*[SL]\b|list)/.test(options)) return null;
  const table = /\s(?:-t|--table)[\s=]*(\w+)/.exec(options)?.[1] ?? (save === undefined ? 'filter' : null);
  return {family: tool === 'ip6' ? 'IPv6' : 'IPv4', table, filtered: filters.length > 0};
}
