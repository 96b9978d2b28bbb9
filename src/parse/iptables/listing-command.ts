import type {Family} from '../../model/family.ts';
import type {Backend} from '../../model/ruleset.ts';

/** A command line above its output, as people paste both: what it shows about the output. */
export interface ListingCommand {
  readonly family: Family;
  /** Null if the name of the command does not show it. */
  readonly backend: Backend | null;
  /** Null for `iptables-save` without `-t`, whose output names its tables. */
  readonly table: string | null;
  /** The one chain that was listed; null for all. */
  readonly chain: string | null;
  /** Its output was piped through a filter such as grep, so rules may be missing. */
  readonly filtered: boolean;
}

/** Reads `user@node:~$ sudo iptables -S -t nat | grep web`; null if the line is not such a command. */
export function parseListingCommand(text: string): ListingCommand | null {
  if (text.length > 500 || !text.includes('tables')) return null;
  const found = command.exec(text.trim());
  if (found === null) return null;
  const [, tool, backend, save, rest = ''] = found;
  const [options = '', ...filters] = rest.split('|');
  const list = listOption.exec(options);
  if (save === undefined && list === null) return null;
  const table = /\s(?:-t|--table)[\s=]*(\w+)/.exec(options)?.[1] ?? (save === undefined ? 'filter' : null);
  const chain = save === undefined ? (list?.[1] ?? null) : null;
  return {
    family: tool === 'ip6' ? 'IPv6' : 'IPv4',
    backend: backend === undefined ? null : backend === '-nft' ? 'nft' : 'legacy',
    ...{table, chain, filtered: filters.length > 0},
  };
}

/** Whether a line is a command at a prompt whose output is not a known listing, or is a filtered one. */
export function isPrompt(text: string): boolean {
  return /^(?:\[[^\]]*@[^\]]*\][$#]|[\w.-]+@[\w.-]+[^$#%>]{0,60}[$#%>]|[$%\u276f\u279c])\s+\S/.test(text);
}

const prompt = String.raw`(?:\[[^\]]*\]\s*[$#]\s*|[\w.-]+@[^$#%>]{0,80}[$#%>]\s*|[^\s$#%>]{0,40}\s?[$#%>\u276f\u279c]\s*|\+{1,2}\s+)?`;
const wrapper = String.raw`(?:(?:sudo|kubectl|k|oc|docker|podman|crictl|nerdctl|ssh|nsenter|gcloud|minikube|kind|vagrant|multipass|lxc|time|watch|chroot|bash|sh)\s.*?\s["']?)?`;
const command = new RegExp(`^${prompt}${wrapper}(?:\\S*/)?(ip6?)tables(-legacy|-nft)?(-save)?((?:\\s[^]*)?)$`);
/** `-S`, `-nvL`, `-L CHAIN`, `--list-rules CHAIN`. */
const listOption = /\s(?:-[a-zA-Z]*[SL](?![a-zA-Z]*[ADIN]\b)[a-zA-Z]*|--list(?:-rules)?)(?=\s|$|["'])(?:\s+([A-Za-z][\w.:-]*))?/;
