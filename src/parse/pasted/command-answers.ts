import {pushTo} from '../../model/lists.ts';
import {plural, someOf} from '../../model/text.ts';
import {undecorate} from '../iptables/pasted-text.ts';
import {martians} from './kernel-lines.ts';
import {doubledRoutes} from './listed-routes.ts';
import {toldCauses, wordsOfCauses} from './told-causes.ts';

/** What commands answer that print no rule, each in a few words: chains and tables that are not there, pods that do not run, counters. */
export function commandAnswers(lines: readonly string[]): readonly string[] {
  const at = lines.flatMap((line, index) => (telling.test(line) || wordsOfCauses.test(line) ? index : []));
  if (at.length === 0) return [];
  const near = new Set(at.flatMap(index => Array.from({length: maxBelow * 2 + 1}, (_, offset) => index - maxBelow + offset)));
  // Of a long text few lines are of commands.
  const own = lines.map((line, index) => (near.has(index) ? undecorate(line).trimEnd() : line));
  const readers = [missingRules, emptySearches, stoppedPods, withoutSlices, withoutBackends, failedInserts, closedByUfw];
  return [...toldCauses(own), ...martians(own), ...doubledRoutes(own), ...readers.flatMap(read => read(own))];
}

/** `iptables: No chain/target/match by that name.` and nft's error, each below the command that names what it asks for. */
function missingRules(lines: readonly string[]): readonly string[] {
  return lines.flatMap((line, at) => {
    const before = (): readonly string[] => lines.slice(Math.max(0, at - maxBelow), at).toReversed();
    if (/^ip6?tables\S*(?: v\S+ \S+)?: No chain\/target\/match by that name/.test(line.trim())) {
      const chain = before()
        .flatMap(text => /\s-(?:\w*L|\w*S|-list\S*)\s+(KUBE-[\w-]+)/.exec(text)?.[1] ?? [])
        .at(0);
      return chain === undefined
        ? []
        : `there is no chain ${chain}: in iptables and IPVS mode kube-proxy has not written its rules, or wrote them to the other backend (iptables-nft-save and iptables-legacy-save show both)`;
    }
    const table = /^Error: No such file or directory/.test(line.trim())
      ? [...before(), ...lines.slice(at + 1, at + 2)]
          .flatMap(text => /\blist (?:table|chain|map|set) (ip6? kube-proxy)\b/.exec(text)?.[1] ?? [])
          .at(0)
      : undefined;
    return table === undefined
      ? []
      : `there is no table ${table}, or not what was asked of it: kube-proxy does not run in nftables mode on this node, or has written no rules`;
  });
}

/** Searches of rules that found nothing: the next lines are empty, or the next one is another command at the same prompt. */
function emptySearches(lines: readonly string[]): readonly string[] {
  return lines.flatMap((line, at) => {
    const [, prompt = '', tool, word = ''] = search.exec(line) ?? [];
    // Table filter has no rule of a Service that works.
    if (
      tool === undefined ||
      (/^ip6?tables(?!\S*-save)/.test(tool) && !/\s(?:-t|--table)[\s=]*nat\b/.test(tool)) ||
      /-t\s*filter/.test(tool)
    )
      return [];
    const next = lines.slice(at + 1, at + 1 + maxBelow).find(text => text.trim() !== '') ?? '```';
    const isEmpty = /^\s*(?:```|\(?(?:no|empty) (?:output|result)s?\)?|\(?(?:nothing|none|empty)\)?\.?\s*$)/i.test(next);
    const isNextCommand = prompt.trim() !== '' && next.startsWith(prompt.trim());
    return isEmpty || isNextCommand
      ? `${tool} has no line with ${word}: kube-proxy of that node has written no rule about it, works in another mode, or with the other backend of iptables`
      : [];
  });
}

const search =
  /^(.*?[$#>%] ?|)(?:sudo )?((?:ip6?tables(?:-legacy|-nft)?-save|ip6?tables(?:-legacy|-nft)? .*-\w*[SL]\w*|nft list ruleset|ipvsadm -\w*[lL]\w*)\b[^|]*?)\s*\|\s*(?:sudo )?e?grep (?:-(?!v)\w+ )*["']?([\w.:/-]*(?:\d+\.\d+\.\d+\.\d+|KUBE-\w|\d{5})[\w.:/-]*)["']?\s*$/;

/** `kube-proxy-9vwlb  0/1  CrashLoopBackOff  41 (2m ago)  3d  192.168.1.12  w2`. */
function stoppedPods(lines: readonly string[]): readonly string[] {
  return lines.flatMap(line => {
    const [, pod = '', program = '', ready, status = '', rest = ''] = podRow.exec(line) ?? [];
    if (pod === '' || (ready !== '0' && /^(?:Running|Completed)$/.test(status))) return [];
    const node = /\d+\.\d+\.\d+\.\d+\s+(\S+)/.exec(rest)?.[1];
    const effect =
      program === 'kube-proxy'
        ? 'the rules of Services on its node are those of before, or none'
        : 'pods of its node may not be reached, whatever the rules of Services';
    return `${pod}${node === undefined ? '' : ` of ${node}`} is ${status === 'Running' ? 'not ready' : status}: ${effect}. kubectl logs ${pod} --previous says why`;
  });
}

const podRow =
  /^\s*(?:[\w-]+\s+)?((kube-proxy|cilium|calico-node|kube-flannel-ds|canal|rke2-canal|weave-net|kube-router|antrea-agent)-(?:[a-z0-9]+-)?[a-z0-9]{5})\s+(\d+)\/\d+\s+([A-Z]\S*)\s+(.*)$/;

/** Services with Endpoints and without an EndpointSlice, where lists of both have default/kubernetes and so are those of a namespace. */
function withoutSlices(lines: readonly string[]): string | readonly string[] {
  const found = new Map<string, string[]>();
  let kind = '';
  for (const line of lines) {
    const words = line.trim().split(/\s{2,}|\t/);
    if (words.includes('NAME'))
      kind = words.includes('ADDRESSTYPE') ? 'slices' : words.includes('ENDPOINTS') && words[0] === 'NAME' ? 'endpoints' : '';
    else if (words.length < 3) kind = '';
    else if (kind === 'slices') pushTo(found, kind, words[0] ?? '');
    else if (kind !== '' && words[1] !== '<none>') pushTo(found, kind, words[0] ?? '');
  }
  const [slices = [], endpoints = []] = [found.get('slices'), found.get('endpoints')];
  const lacking = endpoints.filter(name => !slices.some(slice => slice === name || slice.replace(/-[a-z0-9]{5}$/, '') === name));
  return slices.includes('kubernetes') && endpoints.includes('kubernetes') && lacking.length > 0
    ? `${someOf(lacking)} ${lacking.length === 1 ? 'has' : 'have'} Endpoints and no EndpointSlice, which kube-proxy follows: it knows no endpoint and refuses connections. kube-controller-manager writes both`
    : [];
}

/** Rows of `cilium service list` to which no backend belongs. */
function withoutBackends(lines: readonly string[]): string | readonly string[] {
  const start = lines.findIndex(line => /\bID\s+Frontend\s+Service Type\s+Backend\b/.test(line));
  const own = start < 0 ? [] : lines.slice(start + 1);
  const empty = own.flatMap((line, at) => {
    const frontend = /^\s*\d+\s+(\S+:\d+\S*)\s+(?:ClusterIP|NodePort|LoadBalancer|ExternalIPs|HostPort|LocalRedirect)\s*$/.exec(line)?.[1];
    return frontend === undefined || /^\s+\d+ => /.test(own[at + 1] ?? '') ? [] : frontend;
  });
  return empty.length === 0 ? [] : `the Cilium agent knows no backend of ${someOf(empty)}: it drops or refuses connections`;
}

/** `cpu=1 found=998 … insert_failed=8120 drop=8120 …` of `conntrack -S`. */
function failedInserts(lines: readonly string[]): string | readonly string[] {
  const failed = lines.reduce((sum, line) => sum + Number(/^\s*cpu=\d+\s.*\binsert_failed=(\d+)/.exec(line)?.[1] ?? 0), 0);
  return failed === 0
    ? []
    : `the kernel dropped ${plural(failed, 'packet')} of new flows, since another packet had taken their translation (insert_failed): mostly two DNS requests from one socket at once, one of which is sent again after 5 s. A resolver on each node (NodeLocal DNSCache) or TCP avoids it`;
}

/** `ufw status verbose`. Rules that admit a network or an interface may be those of pods. */
function closedByUfw(lines: readonly string[]): string | readonly string[] {
  const at = lines.findIndex(line => /^\s*Default: .*\bdeny \(routed\)/.test(line));
  const end = lines.findIndex((line, place) => place > at && /^\S*[$#] /.test(line));
  const own = at < 0 ? [] : lines.slice(at, end < 0 ? undefined : end);
  const admits = own.some(line => /\bALLOW FWD\b|\b(?:ALLOW|LIMIT)\b.*\d\/\d|^\s*\S+ on \w.*ALLOW|ALLOW.* on \w/.test(line));
  return own.length === 0 || admits
    ? []
    : 'ufw is active, and no rule of it admits the network of pods: it drops what they send to this node, and what passes the node ("deny (routed)") unless rules of the network plugin accept it';
}

/** Words without which no line of a text tells anything here. */
const telling =
  /No chain\/target|No such file|\bgrep |\d\/\d+ +[A-Z][A-Za-z]|ADDRESSTYPE|ENDPOINTS|Service Type|insert_failed|deny \(routed\)|martian source|cross-device link| dev (?:cni0|cbr0|kube-bridge|docker0) /;

/** Lines between a command and its answer. */
const maxBelow = 3;
