import {depthOf} from '../nftables/nft-dump.ts';
import {joinHostPort} from '../../model/address.ts';
import {isNodePort} from '../../model/service-port.ts';
import {someOf} from '../../model/text.ts';
import {noObjects, type Snapshot} from '../../model/snapshot.ts';
import {isEntryRow} from '../iptables/iptables-list.ts';
import {kubeProxyLog, troubleIn} from '../../model/node/kube-proxy-failures.ts';
import {connectionIn, meanings, packetsOf} from './captured-packets.ts';
import {commandAnswers} from './command-answers.ts';
import {type ClientError, clientErrors, isLocal, refusedClients} from './client-errors.ts';
import {listedIn, listedObjects} from './listed-objects.ts';
import {listedSettings} from './listed-ranges.ts';
import {listedSwitches, stoppedInKernel} from './kernel-lines.ts';
import {asSavedSets, besideLog, listedDevice} from './listed-state.ts';
import {breaksLines, holdsRowsOfCommand, isPlainDump, parseListingCommand, undecorate} from '../iptables/pasted-text.ts';

/** Rules alone: one node with the last part of the origin as its name, and no API objects. Null if the text has no rules (`noDump` says why). */
export function snapshotOfText(origin: string, content: Buffer): Snapshot | null {
  const files = splitText(content);
  if (files.size === 0) return null;
  const name = origin.split('/').at(-1) ?? origin;
  return {origin, api: noObjects, nodes: [{name, files: [...files.keys()], read: file => files.get(file) ?? null}], problems: []};
}

/** Why a text has no rules, to follow the name of the file or the text. */
export function noDump(content: Buffer): string {
  return (
    answerOfText(content) ??
    `is neither a bundle nor a dump of iptables-save or nft: no line of it is a table, a chain, a rule or a virtual server. ${rulesToPaste([])}`
  );
}

/** What a text without rules shows; null if nothing that is known. */
export function answerOfText(content: Buffer): string | null {
  const lines = plainLines(content.toString('utf8', 0, maxShown).split('\n'));
  const rows = unnamedRows(lines);
  const told = rows === null ? '' : endingRow(lines) + samePortText(lines);
  if (rows !== null && told !== '') return rows + told;
  const log = logOfKubeProxy(lines);
  const failure = log === null ? '' : troubleIn(log);
  if (typeof failure !== 'string') {
    const logged = log?.split('\n') ?? [];
    const [beside] = commandAnswers(lines.filter((_, at) => logged[at] === ''));
    const also = beside === undefined ? '' : ` The text shows, too: ${beside}`;
    return `is a log of kube-proxy${beside === undefined ? ' alone' : ''}, which says: ${failure.line} (${failure.failure.cause}): ${failure.failure.remedy}${shortenedText([failure.line])}${also}`;
  }
  // Other programs load rules too, such as the pods of a load balancer.
  const ofCommand =
    log === null && lines.some(line => /\b(?:ip6?tables(?:-restore)?|ipset) v\d\S*(?: .*)?: |\bmodprobe: (?:FATAL|ERROR): /.test(line))
      ? troubleIn(lines.join('\n'))
      : troubleIn(lines.filter(line => /\bKUBE-[A-Z]/.test(line) && /\b(?:[Ff]ailed|[Ee]rror)\b/.test(line)).join('\n'));
  if (typeof ofCommand !== 'string')
    return `has no rules, and what a command says: ${ofCommand.line.trim()} (${ofCommand.failure.cause}). ${rulesToPaste(lines)}`;
  const objects = listedObjects(lines);
  const listed = listedIn(lines);
  const clients = refusedClients(lines, listed);
  const [client] = clients.length > 0 ? [] : clientErrors(lines);
  const unreached = client === undefined ? null : unreachedText(client, lines);
  const connection = connectionIn(lines, listed);
  const facts = [
    ...refusedElements(lines),
    ...stoppedInKernel(lines, listedSwitches(lines) ?? '').map(({text}) => text),
    ...commandAnswers(lines),
    ...packetsOf(lines, lines.join('\n'), listed).map(({text}) => text),
    ...listed.faults,
    ...clients,
    ...besideLog(lines, listed),
    ...(connection?.isFault === true ? [connection.text] : []),
  ];
  const beside = [
    ...(connection === null || connection.isFault || connection.isTranslated ? [] : [connection.text.replace(/^o/, 'O')]),
    ...(objects ?? []),
    ...(unreached === null || facts.some(text => text.includes(client?.host ?? '') && text.includes(' gets no answer'))
      ? []
      : [`A program ${unreached}`]),
  ];
  if (facts.length > 0)
    return `${rows === null ? 'has no rules, and shows: ' : `${rows}. The text shows: `}${[...new Set([...facts, ...beside])].slice(0, maxFacts).join('. ')}`;
  if (rows !== null) return rows;
  const settings = listedSettings(lines);
  const shortened = shortenedText(lines.filter(line => /\bkube-proxy\[\d+\]: /.test(line)));
  const kinds = kindsOfOutput.flatMap(({pattern, form}) => (lines.some(line => pattern.test(line)) ? form : []));
  const what = [
    failure === ''
      ? null
      : `is a log of kube-proxy alone, in which no failure is known. Its last error is: ${failure}${shortenedText([failure])}`,
    objects === null ? null : ['is what kubectl prints, without rules', ...beside].join('. '),
    unreached === null ? null : `shows a program that ${unreached}${settings === null ? '' : `. The text ${settings}`}`,
    log === null ? null : 'is a log of kube-proxy alone, without an error',
    settings,
    connection === null ? null : `is a list of tracked connections, without rules: ${connection.text}`,
    shortened === '' ? null : `has lines of a log of kube-proxy.${shortened}`,
    kinds.length === 0 ? null : `has ${someOf(kinds)}, in which nothing is known to be wrong, and no rules`,
  ].find(text => text !== null);
  if (what === undefined) return null;
  // What is wrong with an object no rule shows.
  return (objects ?? []).length > 0 ? what : `${what.replace(/\.$/, '')}. ${rulesToPaste(lines, client, objects !== null)}`;
}

/** The commands whose output says what a node does, by the mode that a text names. */
function rulesToPaste(lines: readonly string[], {host, port}: Partial<ClientError> = {}, hasLists = false): string {
  const [isIpvs, isNft] = [/\bipvs|ip_vs/i, /\bnftables\b|\bnft\b/].map(mode => lines.some(line => mode.test(line)));
  const where = isNodePort(port) && host !== undefined && !isLocal.test(host) ? `on ${host}` : 'there';
  const [both, one] = [
    'iptables-save (nft list ruleset in nftables mode, ipvsadm -Ln in IPVS mode)',
    isNft === true ? 'nft list ruleset' : 'ipvsadm -Ln',
  ];
  const lists = hasLists ? '' : ', and kubectl get svc,endpoints -A -o wide';
  const other = listsOfOthers.find(({pattern}) => lines.some(line => pattern.test(line)))?.form;
  return `To see what a node does, paste what ${other ?? (isIpvs === isNft ? both : one)} prints ${where}${lists}`;
}

/** Of what serves Services in place of the rules of kube-proxy. */
const listsOfOthers = meanings(String.raw`
\bHNS\b|\bHns|winkernel|\bPS [A-Z]:\\|Windows (?:Server|node)
  hnsdiag list loadbalancers -d
\bovn-(?:kube|controller|nb)|\bovnkube|OVN-KUBE
  ovn-nbctl lb-list
\b[Cc]ilium
  cilium-dbg service list (iptables-save, where kube-proxy runs beside Cilium)
`);

/** What commands print that has no rules, and what somebody may paste alone. */
const kindsOfOutput = meanings(String.raw`
: Flags \[|\bIP6? \S+ > \S+: |^\s*[TUI] \S+ -> \S+:\d
  captured packets
^\s*(?:net|kernel|vm|fs)\.[\w.-]+ ?= ?\S
  settings of the kernel
^\s*\d+: [\w.-]+\S*: <
  interfaces
^\s*(?:default|\d\S+) (?:via|dev) \S+ |^\s*\d\S+\s+\d\S+\s+255\.
  routes
\bHWaddress\b| lladdr | at (?:[\da-f:]{17} \[|<incomplete>)
  neighbors
^\s*(?:PING |\d+ bytes from |Server:\s|;; |HTTP\/\d|< HTTP\/)|\bcurl: \(|\bwget:
  answers to programs
^\s*(?:Members:|add KUBE-\S+ )
  sets (ipset), to whose members rules of iptables-save do something
: kube-ipvs0: <
  addresses of kube-ipvs0, which is DOWN and NOARP wherever kube-proxy works
`);

/** Without what pages, letters and terminals put around the lines of a text, and without the marks of code within a line. */
function plainLines(lines: readonly string[]): readonly string[] {
  return lines.map(line => {
    if (/^\s*```/.test(line)) return line;
    const text = undecorate(line.startsWith('>') ? line.replace(/^(?:> ?)+/, '') : line);
    // A row of conntrack in a sentence; `conntrack -E` puts events before it.
    if (text.includes(' src=')) return text.replace(/^[^\]]*?\b(?=(?:tcp|udp)\s+(?:6|17)\s+\d+ (?:[A-Z_]+ )?src=)/, '');
    return /^ *`[^`]|[^`]` *$/.test(text) ? text.replace(/^ *`(?=[^`])/, '').replace(/(?<=^[^`]*)` *$/, '') : text;
  });
}

function unreachedText({host, port, why}: ClientError, lines: readonly string[]): string {
  const asked = joinHostPort(host, port);
  const program = isNodePort(port)
    ? ', a port of the range of node ports'
    : programs[port] === undefined
      ? ''
      : `, the port of ${programs[port]}`;
  const isPinged = lines.some(line => line.includes(` bytes from ${host}:`));
  const isAnswered = lines.some(line => line.includes('Address:') && line.includes(`${host}#${port}`));
  return `does not reach ${asked} (${why})${program}: ${isPinged ? answersPing : meaningOf(why, host)}${isAnswered ? answersOthers : ''}${/\.0\.1:443$/.test(asked) ? ofKubernetes : ''}`;
}

const answersPing =
  'it answers ping, so that packets find it (in IPVS mode each node has the cluster IPs itself): nothing listens on that port, a firewall or a NetworkPolicy stops packets to it, or checksums are wrong in a tunnel (ethtool -K flannel.1 tx-checksum-ip-generic off)';

const answersOthers =
  '. It answers elsewhere in the text: one of several endpoints (that of another node) or of several clients is cut off. kubectl get pods -o wide shows where each is';

/** The first address of the usual ranges of Services. */
const ofKubernetes =
  '. If this is the cluster IP of default/kubernetes, kube-proxy of the node has no rule for it, or its endpoint, the API server, is not reached: curl -k to the address of kubectl get endpoints kubernetes shows which';

/** What is known by its port. */
const programs: Record<number, string> = {6783: 'weave', 179: 'BGP', 6443: 'the API server', 10250: 'kubelet', 2379: 'etcd', 53: 'DNS'};

function meaningOf(why: string, host: string): string {
  if (/refused|拒绝/i.test(why))
    return `nothing listens there${isLocal.test(host) ? '' : ', or a rule refuses, as kube-proxy does for a Service without endpoints'}`;
  return /no route to host/i.test(why)
    ? 'a firewall refuses (REJECT with icmp-host-prohibited, as firewalld does), or no host has the address'
    : 'packets or their answers are lost on the way, by a firewall, a NetworkPolicy or the network plugin';
}

/** systemctl shortens lines at the end, and journalctl in the middle. What is quoted of long ones ends so, too. */
function shortenedText(lines: readonly string[]): string {
  return lines.some(line => line.length < 200 && /[a-z]\.{3}[a-z]|\w(?:\.{3}|…)\s*$/i.test(line))
    ? ' The line is shortened: journalctl -u kube-proxy --no-pager prints it whole.'
    : '';
}

/** `10.96.1.1 . tcp . 80 comment "shop/web:http" : goto reject-chain`, as `nft list ruleset | grep` leaves it. */
function refusedElements(lines: readonly string[]): readonly string[] {
  const refused = lines.flatMap(line => {
    const [, protocol = '', port = '', name, verdict = ''] =
      /(?:^|[\s{,])(?:\S+ \. )?(tcp|udp|sctp) \. (\d+) comment "([\w.-]+\/[\w.:-]+)" : (goto reject-chain|drop)\b/.exec(line) ?? [];
    return name === undefined ? [] : `${name} (${protocol} ${port}) is ${verdict === 'drop' ? 'dropped' : 'refused'}`;
  });
  return refused.length === 0
    ? []
    : [`in elements of the maps of kube-proxy, ${someOf(refused)}: for kube-proxy without an endpoint, or without one on this node`];
}

/** Rows of `iptables -L` without the heading that names their chain; null if there is none. */
function unnamedRows(lines: readonly string[]): string | null {
  const row = lines.findIndex(line => isRow.test(line));
  if (row < 0) return null;
  return `has rows of iptables -L without the heading that names their chain, as on line ${row + 1}: paste the whole listing, or lines of iptables-save, which name it`;
}

/** Of rows without a chain: one that ends the path of every packet. */
function endingRow(lines: readonly string[]): string {
  const at = lines.findIndex(line => isEndingRow.test(line));
  if (at < 0) return '';
  return `. The row on line ${at + 1} stops every packet that comes to it, as firewalld and iptables-services write it: rows after it in its chain, such as those that accept packets of pods, are never met`;
}

const isEndingRow =
  /^\s*(?:\d+\s+)?(?:\S+\s+\S+\s+)?(?:REJECT|DROP)\s+(?:all|0)\s+--\s+(?:(?:\*|any)\s+(?:\*|any)\s+)?(?:anywhere|0\.0\.0\.0\/0)\s+(?:anywhere|0\.0\.0\.0\/0)\s*(?:(?:--)?reject-with \S+)?\s*$/;

/** Of rows without a chain: those that send one port to different places. In one chain the first wins. */
function samePortText(lines: readonly string[]): string {
  const rows = lines.flatMap((text, at) => {
    const to = / to:(\S+)/.exec(text)?.[1] ?? /\b(?:CNI-DN-[\da-f]+|KUBE-(?:SVC|EXT|XLB)-[A-Z2-7]{16})\b/.exec(text)?.[0];
    const port = /\b(tcp|udp|sctp)\b.* (?:dpt:|dports )(\d+)\b/.exec(text)?.slice(1, 3).toReversed().join('/');
    return to === undefined || port === undefined || !isRow.test(text) ? [] : [{port, to, line: at + 1}];
  });
  const [rivals] = [...Map.groupBy(rows, ({port}) => port).values()].filter(all => new Set(all.map(({to}) => to)).size > 1);
  const [first] = rivals ?? [];
  if (rivals === undefined || first === undefined) return '';
  const where = someOf(rivals.map(({to, line}) => `${to} (line ${line})`));
  return `. Port ${first.port} is sent to ${where}: of rows in one chain the first wins, and iptables-save | grep ${first.port.split('/')[0]} shows which chain each is in`;
}

const maxShown = 100_000;
/** The most telling ones of a text. */
const maxFacts = 3;
const isRow = /^\s*(?:\d+[KMGT]?\s+\d+[KMGT]?\s+)?[A-Za-z][\w-]*\s+(?:tcp|udp|sctp|icmp|all|\d+)\s+(?:--|-f|!f)\s/;

/** The text itself, where it shows more than rules: what kubectl lists, a log, traced packets. */
export const wholeText = 'pasted-text';

/** The files of a bundle that a pasted text contains. */
type PastedFiles = ReadonlyMap<string, Buffer>;

/**
 * Divides pasted text, the output of one or more tools, into the files that a bundle has of a node. Line numbers stay the same: lines of
 * other tools are empty. Lines that no other tool printed go to the reader of iptables, which keeps them. Returns no file if no line is a
 * table, a chain or a rule.
 */
function splitText(content: Buffer): PastedFiles {
  if (isPlainDump(content) && !otherTools.some(sign => content.indexOf(sign) >= 0)) return new Map([[dumpFile(content), content]]);
  const text = content.toString('utf8');
  const json = jsonOf(text);
  const lines = asSavedSets(plainLines((breaksLines(text) ? text.replace(/<br\s*\/?>(?=[^\n])/gi, '\n') : text).split('\n')));
  const parts = partLines(json === null ? lines : lines.map(() => ''));
  const files = new Map<string, Buffer>();
  const isRule = (line: string): boolean => isRuleLine.test(line) || isEntryRow(line);
  if (parts.rules.some(isRule) || holdsRowsOfCommand(parts.rules)) {
    const rules = Buffer.from(parts.rules.join('\n'));
    files.set(dumpFile(rules), rules);
  }
  const put = (name: string, part: string | null): void => {
    if (part !== null) files.set(name, Buffer.from(part));
  };
  const linesOf = (part: readonly string[]): string | null => (part.some(line => line !== '') ? part.join('\n') : null);
  put('nft.json', json ?? linesOf(parts.nft));
  put(parts.isPartOfIpvs ? 'ipvsadm-part' : 'ipvsadm-save', linesOf(parts.ipvs));
  if (files.size > 0) {
    put('conntrack', linesOf(parts.conntrack));
    put(kubeProxyLog, logOfKubeProxy(lines));
  }
  put('ipset-save', linesOf(parts.ipset));
  if (files.size === 1 && files.has('ipset-save')) return new Map();
  if (files.size > 0) {
    put('kube-ipvs0.json', listedDevice(lines));
    put('sysctls', listedSwitches(lines));
  }
  const showsMore = json === null ? parts.rules.some(line => line.trim() !== '') : json.trim() !== text.trim();
  if (files.size > 0 && showsMore) files.set(wholeText, Buffer.from(lines.join('\n')));
  return files;
}

const otherTools =
  '\ntable |IP Virtual Server|\n-A -t |\n-A -u |\ncreate |"nftables"|kube-ipvs0: <|Members:| dport=|.go:|NAME |Endpoints:|apiVersion|TRACE: |trace id | SRC=|net.ipv4.ip_forward|admin prohibited|table full, dropping|FORWARD policy is|deny (routed)|ClusterIP |NodePort |: Flags [| unreachable|martian source|forbidden: User|dial tcp |curl: ('.split(
    '|',
  );
const isRuleLine =
  /^\s*(?:\*(?:nat|filter|mangle|raw|security)\s*$|-[APN] \S+|(?:[>+*-]\s+)*Chain \S+ \(|\[\d+:\d+\] -A|:[A-Za-z][\w-]* [A-Z-])/;

function dumpFile(content: Buffer): string {
  const isSix = content.indexOf('# Generated by ip6tables') >= 0 && content.indexOf('# Generated by iptables') < 0;
  return isSix ? 'ip6tables-save' : 'iptables-save';
}

/** The output of `nft -j`, without the command above it; null if there is none. */
function jsonOf(text: string): string | null {
  const start = text.search(/\{\s*"nftables"\s*:/);
  if (start < 0) return null;
  const end = text.lastIndexOf('}');
  return text.slice(start, end < start ? text.length : end + 1);
}

/** The lines of a log of kube-proxy, others are empty; null if there are none. They end at an empty line, a command, a rule or a fence. */
function logOfKubeProxy(lines: readonly string[]): string | null {
  let isLog = false;
  const own = lines.map(line => {
    const text = line.trim();
    if (isLogLine.test(text.slice(0, maxHead))) isLog = !isOfOthers.test(text.slice(0, maxHead));
    else if (isLog) isLog = !(text === '' || /^(?:```|[-*:]\S)|^\S*[$#%]\s|^Chain /.test(text));
    return isLog ? text : '';
  });
  // Of the programs that are built with Kubernetes, kube-proxy alone lists just these.
  const listed = new Set(own.flatMap(line => /Failed to (?:list|watch) \*v1\.(\w+)/i.exec(line)?.[1] ?? []));
  const lists =
    /^(?:Endpoint(?:s|Slice),)(?:Node,)?Service$/.test([...listed].sort().join()) &&
    lines.some(line => line.includes('client-go/informers/factory.go') || line.includes('kube-proxy'));
  const shows =
    lists ||
    own.some(line => line.includes("is incompatible, use 'nft' tool") || isRuleOfNft.test(line)) ||
    lines.some(
      line =>
        /kube-proxy.*\blogs?\b|\blogs?\b.*kube-proxy/.test(line) ||
        (isLogLine.test(line) && ofKubeProxy.test(line)) ||
        isFrame.test(line) ||
        isRuleOfNft.test(line),
    );
  return shows && own.some(line => line !== '') ? own.join('\n') : null;
}

/** Of the head that klog, journald and container runtimes write before a message. */
const maxHead = 200;
const isLogLine =
  /^panic: |^\/dev\/stdin:\d+:[\d-]+: Error: |(?:(?:^|[ |:\]])[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ |^)(?:\w+\.go:\d+\]|(?:[\w.-]+\/)+\w+\.go:\d+: )|^[WE] (?:\w+\.go:\d+\b|"[A-Z])/;
/** Its sources, and what it alone follows. */
const ofKubeProxy =
  /kube-proxy|prox[iy]|server_(?:others|linux)\.go|graceful_termination|ipset\.go|healthcheck\.go|_health\.go|bounded_frequency|save_restore\.go|endpointslicecache|running iptables.*KUBE-(?:SERVICES|NODE-?PORTS?)|(?:service|endpoints?(?: slice)?) config\b/;
/** What nft says of a rule that kube-proxy gave to it. */
const isRuleOfNft = /^\s*(?:add|insert|create|delete|flush|replace) \w+ ip6? kube-proxy /;
/** Of a Go panic: the function of kube-proxy that it happened in. */
const isFrame = /\bkubernetes\/(?:pkg\/proxy|cmd\/kube-proxy)\//;
/** kubelet; and clients of the API, such as CoreDNS, that list what kube-proxy never does, or are built in another way. */
const isOfOthers =
  /kubelet|\b(?:kube|remote|pod|status|docker|cni|eviction|reconciler|operation)_?\w*\.go:|pkg\/mod\/k8s\.io\/client-go@v0|\*v1\.(?:Namespace|Pod|Secret|ConfigMap|Ingress)\b/;

type Tool = 'rules' | 'nft' | 'ipvs' | 'ipset' | 'conntrack';

interface TextParts extends Readonly<Record<Tool, string[]>> {
  /** ipvsadm listed only one virtual server, or its output was filtered. */
  isPartOfIpvs: boolean;
}

function partLines(lines: readonly string[]): TextParts {
  const parts: TextParts = {rules: [], nft: [], ipvs: [], ipset: [], conntrack: [], isPartOfIpvs: false};
  let depth = 0;
  let lastTool: Tool = 'rules';
  let hasIpvs = false;
  let hasHeading = false;
  for (const [index, text] of lines.entries()) {
    if (depth > 0 && endsNft(text)) depth = 0;
    const tool = depth > 0 ? 'nft' : toolOf(text.trim());
    if (tool === 'nft') depth = Math.max(0, depth + depthOf(text));
    if (/^\s*Prot LocalAddress:Port/.test(text)) hasHeading = true;
    // A last line without a newline may be half a row, which no longer looks like one.
    if (index === lines.length - 1 && text.trim() !== '' && lastTool === 'ipvs') parts.isPartOfIpvs = true;
    if (text.trim() !== '') lastTool = tool;
    if (tool === 'ipvs') hasIpvs = true;
    if (showsPartOfIpvs(text, {tool, hasHeading, hasIpvs})) parts.isPartOfIpvs = true;
    for (const name of ['rules', 'nft', 'ipvs', 'ipset', 'conntrack'] as const) parts[name].push(name === tool ? text : '');
  }
  return parts;
}

/**
 * Whether virtual servers may be missing: the command asked for one or was filtered, rows are left out, or rows of a listing have no
 * heading above them.
 */
function showsPartOfIpvs(text: string, {tool, hasHeading, hasIpvs}: LineBefore): boolean {
  if (/\bipvsadm(?:-save)?\b.*(?:\||\s-[tuf]\s|-service)/.test(text)) return true;
  if (/^\s*(?:\.{3,}|\u2026+)\s*$/.test(text)) return hasIpvs;
  return tool === 'ipvs' && !hasHeading && /^\s*(?:TCP|UDP|SCTP)\s/.test(text);
}

interface LineBefore {
  readonly tool: Tool;
  /** A heading of `ipvsadm -L` stands above. */
  readonly hasHeading: boolean;
  readonly hasIpvs: boolean;
}

function toolOf(text: string): Tool {
  if (/^(?:table (?:(?:ip|ip6|inet|arp|bridge|netdev) )?|(?:chain|map|set) )\S+ \{/.test(text)) return 'nft';
  if (/^(?:IP Virtual Server version|Prot LocalAddress:Port|-> RemoteAddress:Port)/.test(text)) return 'ipvs';
  // `ipvsadm -Lnc` lists connections, each with the time until it expires.
  if (/^(?:TCP|UDP|SCTP|ICMP)\s+\d+:\d\d\s/.test(text)) return 'rules';
  // Without -n, ipvsadm shortens long names, also to nothing of the port.
  if (/^(?:(?:TCP|UDP|SCTP)\s+\S+:[\w-]*\s|FWM\s+\d+\s|->\s+\S+:[\w-]+\s+(?:Masq|Route|Tunnel|Local|\d))/.test(text)) return 'ipvs';
  if (/^(?:ipv[46]\s+\d+\s+)?(?:tcp|udp|sctp)\s+\d+\s.* ?src=\S+ dst=\S+ sport=\d+ dport=\d+ /.test(text)) return 'conntrack';
  if (/^-[Aa] (?:-[tuf]|--(?:tcp|udp|sctp|fwmark)-service) \S/.test(text)) return 'ipvs';
  return /^(?:create \S+ (?:hash|list|bitmap):|add \S+ [\da-fA-F.:]+)/.test(text) ? 'ipset' : 'rules';
}

/** A table that was pasted in part may never be closed. */
function endsNft(text: string): boolean {
  return (
    /^```|^\*(?:nat|filter|mangle|raw|security)\s*$|^table .*\{$/.test(text) ||
    parseListingCommand(text) !== null ||
    isCommandOfNft.test(text)
  );
}

const isCommandOfNft = /^\S*(?:[$#%>]\s+|@\S*[$#%>]\s+|\[[^\]]*\][$#]\s+).*\b(?:nft|ipvsadm|ipset|kubectl)\b/;
