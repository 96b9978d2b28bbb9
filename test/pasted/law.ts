import {expect} from 'vitest';
import type {NodeDump} from '../../src/model/snapshot.ts';
import {loadRules} from '../e2e/kernel/load-rules.ts';
import {Namespace} from '../e2e/kernel/namespace.ts';
import {loadNft} from '../e2e/kernel/load-nft.ts';
import {snapshotOf} from '../fixtures.ts';
import {answerText, askText, breach, type Question} from './ask.ts';
import {type Form, listForms, listNftForms, type Tool} from './forms.ts';

const quiet = ['-e', 'process.send({done: null}); process.on("disconnect", () => process.exit())'];

/** Which forms are tried: one in `every`, from the form `from` on. All where it is left out. */
export interface SampledForms {
  readonly every: number;
  readonly from: number;
}

/** Loads the iptables rules of a node into the kernel and compares its forms with the dump. Returns the breaches of the law. */
export async function iptablesBreaches(capture: string, tool: Tool, sampled?: SampledForms): Promise<readonly string[]> {
  await using node = await Namespace.open(quiet);
  const dump = await nodeOf(capture);
  const family = tool.startsWith('ip6') ? 'IPv6' : 'IPv4';
  const backend = tool.endsWith('-nft') ? 'nft' : 'legacy';
  const sets = dump.read('ipset-save')?.toString();
  if (sets !== undefined) node.run('ipset', ['restore'], sets);
  loadRules(node, backend, {family, dump: dump.read(family === 'IPv4' ? 'iptables-save' : 'ip6tables-save')?.toString() ?? ''});
  const save = node.run(`${tool}-save`, []);
  return breaches(chosen(listForms(node, tool), sampled), save, questionsFor(save, family));
}

/** The same for nftables. */
export async function nftBreaches(capture: string, sampled?: SampledForms): Promise<readonly string[]> {
  await using node = await Namespace.open(quiet);
  loadNft(node, await nodeOf(capture));
  // The rules of iptables that are beside those of kube-proxy have their own forms.
  for (const table of node.run('nft', ['list', 'tables']).matchAll(/^table (ip6? (?:nat|filter|mangle|raw))$/gm))
    node.run('nft', ['delete', 'table', ...(table[1] ?? '').split(' ')]);
  const ruleset = node.run('nft', ['list', 'ruleset']);
  return breaches(
    chosen(listNftForms(node), sampled),
    ruleset,
    questionsFor(ruleset, 'IPv4').filter(({destination}) => !destination.includes(':')),
  );
}

function chosen(forms: readonly Form[], {every, from}: SampledForms = {every: 1, from: 0}): readonly Form[] {
  return forms.filter((_, index) => index % every === from);
}

async function nodeOf(capture: string): Promise<NodeDump> {
  const {nodes} = await snapshotOf(capture);
  const [node] = nodes;
  if (node === undefined) throw new Error(`${capture} has no node`);
  return node;
}

async function breaches(forms: readonly Form[], dump: string, questions: readonly Question[]): Promise<readonly string[]> {
  const expected = await askText(dump, questions);
  expect(expected.some(answer => !answer.has('undecided'))).toBe(true);
  const found: string[] = [];
  for (const {name, text, isWhole} of forms) {
    const answers = await askText(text(), questions);
    for (const [index, question] of questions.entries()) {
      const [answer, right] = [answers[index], expected[index]];
      if (answer === undefined || right === undefined) throw new Error('a question has no answer');
      const wrong =
        breach(answer, right) ??
        (isWhole && answerText(answer) !== answerText(right)
          ? `${answerText(answer)}, though the form shows that it is ${answerText(right)}`
          : null);
      if (wrong !== null) found.push(`${name}: ${question.source} to ${question.destination} ${question.port}: ${wrong}`);
    }
  }
  return found;
}

/** Questions that reach as much of a node's rules as there is: each destination with its port, from every kind of client, and some that no rule is about. */
function questionsFor(dump: string, family: 'IPv4' | 'IPv6'): readonly Question[] {
  const sources =
    family === 'IPv4' ? ['10.244.11.4', '198.51.100.9', '172.18.0.11'] : ['fd00:10:244:11::9', '2001:db8::9', 'fc00:f853:ccd:e793::11'];
  const node = family === 'IPv4' ? '172.18.0.11' : 'fc00:f853:ccd:e793::11';
  const elsewhere = family === 'IPv4' ? '9.9.9.9' : '2620:fe::fe';
  const places = [
    ...destinationsOf(dump, node),
    {destination: elsewhere, port: '443', protocol: 'tcp'},
    {destination: node, port: '22', protocol: 'tcp'},
  ];
  return places.flatMap((place, index) =>
    sources.filter((_, at) => places.length < 12 || at === index % sources.length).map(source => ({source, ...place})),
  );
}

function destinationsOf(dump: string, node: string): readonly Omit<Question, 'source'>[] {
  const found = new Map<string, Omit<Question, 'source'>>();
  for (const line of dump.split('\n')) {
    const port = / --dport (\d+)(?= )/.exec(line)?.[1];
    const protocol = / -p (tcp|udp)/.exec(line)?.[1];
    if (port === undefined || protocol === undefined) continue;
    const address = / -d ([^ /]+)/.exec(line)?.[1] ?? (line.startsWith('-A KUBE-NODEPORTS') ? node : null);
    if (address !== null) found.set(`${address} ${port} ${protocol}`, {destination: address, port, protocol});
  }
  for (const [, address = '', protocol = '', port = ''] of dump.matchAll(/([\da-f.:]+) \. (tcp|udp) \. (\d+)(?: comment "[^"]*")? :/g))
    found.set(`${address} ${port} ${protocol}`, {destination: address, port, protocol});
  const all = [...found.values()];
  const step = Math.max(1, Math.floor(all.length / 10));
  return all.filter((_, index) => index % step === 0);
}
