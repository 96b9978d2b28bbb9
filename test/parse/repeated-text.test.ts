/** Texts that are made to take long. A pattern that scans the rest of the text at every place would need minutes for these; all take a moment. */
import process from 'node:process';
import {afterEach, beforeEach, describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {snapshotOfText} from '../../src/parse/pasted/split-text.ts';
import {redactFile} from '../../src/redact/redact-file.ts';
import {Replacements} from '../../src/redact/replacements.ts';

const head = '*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n';
/** A text of about this many bytes. */
type Make = (n: number) => string;

const rules: Readonly<Record<string, Make>> = {
  tags: n => `${'<b>'.repeat(n / 3)}\n${head}-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n`,
  lt: n => `${'<'.repeat(n)}\n${head}`,
  causes: n => 'failed to add vxlanRoute (10.42.0.0/24 '.repeat(n / 39),
  listing: n =>
    `Chain INPUT (policy ACCEPT)\ntarget prot opt source destination\nACCEPT all -- anywhere anywhere /* ${'/* '.repeat(n / 3)}`,
  listing2: n => `Chain INPUT (policy ACCEPT)\ntarget prot opt source destination\n${'ACCEPT all -- '.repeat(n / 14)}`,
  listing3: n =>
    `Chain INPUT (policy ACCEPT)\ntarget prot opt source destination\nACCEPT all -- 0.0.0.0/0 0.0.0.0/0 ${'/* a */ '.repeat(n / 8)}`,
  bang: n => `${head}-A KUBE-SERVICES ${'! '.repeat(n / 2)}-j ACCEPT\nCOMMIT\n`,
  mcomment: n => `${head}-A KUBE-SERVICES ${'-m comment '.repeat(n / 11)}-j ACCEPT\nCOMMIT\n`,
  colons: n => `${head}-A KUBE-SERVICES -m comment --comment "${':'.repeat(n)}" -j ACCEPT\nCOMMIT\n`,
  colons2: n => `${head}-A KUBE-SERVICES -m comment --comment "${'a:b/'.repeat(n / 4)}" -j ACCEPT\nCOMMIT\n`,
  svcs: n => `${'KUBE-SVC-AAAAAAAAAAAAAAAA '.repeat(n / 26)}\n${head}`,
  svcs2: n => `${head}-A KUBE-SERVICES -j ${'KUBE-SVC-AAAAAAAAAAAAAAAA'.repeat(n / 26)}\nCOMMIT\n`,
  svcs3: n => `${head}-A KUBE-SERVICES ${'-j KUBE-SVC-AAAAAAAAAAAAAAAA '.repeat(n / 29)}\nCOMMIT\n`,
  quotes: n => `${head}-A KUBE-SERVICES -m comment --comment "${'\\"'.repeat(n / 2)}\nCOMMIT\n`,
  spaces: n => `${head}-A KUBE-SERVICES${' '.repeat(n)}x\nCOMMIT\n`,
  spaces2: n => `Chain INPUT (policy ACCEPT)\n${' '.repeat(n)}x\n`,
  tabs: n => `table ip nat {\n\tchain x {\n${'\t'.repeat(n)}x\n`,
  nftset: n => `table ip nat {\n\tset x {\n\t\telements = { ${'1.2.3.4, '.repeat(n / 9)}\n`,
  nftbrace: n => `table ip nat {\n\tchain x {\n\t\t${'{ '.repeat(n / 2)}\n`,
  nftjump: n => `table ip nat {\n\tchain x {\n\t\t${'jump '.repeat(n / 5)}\n`,
  prompt: n => `${'user@host:~$ '.repeat(n / 13)}iptables-save\n${head}`,
  hash: n => `${'# '.repeat(n / 2)}\n${head}`,
  ticks: n => '```\n'.repeat(n / 4) + head,
  ips: n => `${'1.1.1.1:'.repeat(n / 8)}\n${head}`,
  ips6: n => `${'a:'.repeat(n / 2)}\n${head}`,
  ips6b: n => `${head}-A KUBE-SERVICES -d ${'::'.repeat(n / 2)} -j ACCEPT\nCOMMIT\n`,
  digits: n => `${head}-A KUBE-SERVICES -m x --x ${'1.'.repeat(n / 2)} -j ACCEPT\nCOMMIT\n`,
  hexs: n => `${head}-A KUBE-SERVICES -m x --x ${'0x'.repeat(n / 2)} -j ACCEPT\nCOMMIT\n`,
  dashes: n => `${head}-A KUBE-SERVICES ${'-'.repeat(n)} -j ACCEPT\nCOMMIT\n`,
  ipvs: n => `-A -t 10.0.0.1:80 -s rr\n${'-a -t 10.0.0.1:80 '.repeat(n / 18)}\n`,
  ipvsl: n =>
    'IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn\nTCP  ' +
    '10.0.0.1:80 rr '.repeat(n / 15) +
    '\n',
  chainlist: n => `${'Chain '.repeat(n / 6)}\n${head}`,
  counters: n => `${'['.repeat(n)}\n${head}`,
  counters2: n => `${head + '[0:0] '.repeat(n / 6)}-A KUBE-SERVICES -j ACCEPT\nCOMMIT\n`,
  html2: n => `${'&lt;'.repeat(n / 4)}\n${head}`,
  amp: n => `${'&'.repeat(n)}\n${head}`,
  equals: n => `${'a='.repeat(n / 2)}\n${head}`,
};
const nftJson = (rule: object) => JSON.stringify({nftables: [{rule: {family: 'ip', table: 'nat', chain: 'x', handle: 1, ...rule}}]});
const files: Readonly<Record<string, readonly [file: string, make: Make]>> = {
  metrics: ['metrics', n => `x_total 1e${'1e'.repeat(n / 2)}\n`],
  metrics2: ['metrics', n => `x{${'a="b",'.repeat(n / 6)}} 1\n`],
  metrics3: ['metrics', n => `${'1e'.repeat(n / 2)}\n`],
  metrics4: ['metrics', n => `sync_proxy_rules_x 1${'e'.repeat(n)}\n`],
  conntrack: ['conntrack', n => `tcp 6 1 ESTABLISHED ${'src=1.1.1.1 '.repeat(n / 12)}\n`],
  conntrack2: ['conntrack', n => `tcp 6 1 ${'A'.repeat(n)}\n${'a=1 '.repeat(n / 4)}\n`],
  servers: ['ipvsadm-save', n => `-A -t ${'a'.repeat(n)}\n-A -t ${'1.'.repeat(n / 2)}\n-A -t ${'a:'.repeat(n / 2)}\n`],
  nftjson: ['nft.json', n => nftJson({comment: 'a/'.repeat(n / 2), expr: [{log: {prefix: '::'.repeat(n / 2)}}]})],
  nftjson2: ['nft.json', n => nftJson({expr: Array.from({length: n / 20}, () => ({jump: {target: 'x'}}))})],
  nftjson3: ['nft.json', n => nftJson({expr: [{jump: {target: 'service-AAAAAAAA-'.repeat(n / 17)}}]})],
  nftjson4: ['nft.json', n => `{"nftables": ${'['.repeat(n)}`],
  nftjson5: ['nft.json', n => `{"nftables": [${'{"rule": '.repeat(n / 9)}`],
  sysctls: ['sysctls', n => `${'net.'.repeat(n / 4)} = 1\n`],
  ipset: ['ipset-save', n => `create x hash:ip ${'family '.repeat(n / 7)}\n`],
  ipset2: ['ipset-save', n => `add x ${'1,'.repeat(n / 2)}\n`],
  version: ['iptables-version', n => `iptables v1.8.${'1.'.repeat(n / 2)}\n`],
  log: ['kube-proxy.log', n => `E1 x.go:1] table ${'dial tcp '.repeat(n / 9)}\n`],
  log2: ['kube-proxy.log', n => `${'nfacct '.repeat(n / 7)}\n`],
  log3: ['kube-proxy.log', n => `${'xtables lock '.repeat(n / 13)}\n`],
};

const size = 200_000;
/** In seconds of the processor, which are the same on a busy machine. A text that is read in the square of its length takes minutes. */
const longest = 20;
const replacements = new Replacements('key');

describe('a text of repeated beginnings is read and redacted to its end', () => {
  let before: NodeJS.CpuUsage;
  beforeEach(() => {
    before = process.cpuUsage();
  });
  afterEach(() => {
    const {user, system} = process.cpuUsage(before);
    expect((user + system) / 1e6).toBeLessThan(longest);
  });

  test.each(Object.entries(rules))('%s', (name, make) => {
    const text = Buffer.from(make(size));
    const snapshot = snapshotOfText('pasted', text);
    if (snapshot !== null) expect(diagnose(snapshot, {toolVersion: '0'}).summary).toBeDefined();
    expect(redactFile(name.startsWith('nft') ? 'nft.txt' : 'iptables-save', text, replacements)).not.toBeNull();
  });

  test.each(Object.entries(files))('%s', (_, [file, make]) => {
    expect(redactFile(file, Buffer.from(make(size)), replacements)).not.toBeNull();
  });
});
