import type {Namespace} from '../e2e/kernel/namespace.ts';

/** Rules of one node in a form in which people paste them. */
export interface Form {
  readonly name: string;
  /** Made when it is asked for: a listing of every chain by a command of its own takes a second. */
  readonly text: () => string;
  /** The form shows as much as the dump: it must answer as the dump does. */
  readonly isWhole: boolean;
}

export type Tool = 'iptables-nft' | 'iptables-legacy' | 'ip6tables-nft' | 'ip6tables-legacy';

/** Lists what is loaded, by the real tools, in every form. */
export function listForms(node: Namespace, tool: Tool): readonly Form[] {
  const run = (...args: readonly string[]) => node.run(tool, args);
  const name = tool.replace(/-(?:nft|legacy)$/, '');
  const tables = ['nat', 'filter', 'mangle', 'raw'];
  const each = (args: readonly string[], of: readonly string[] = tables) => of.map(table => ({table, output: run('-t', table, ...args)}));
  const bare = (args: readonly string[]) =>
    each(args)
      .map(({output}) => output)
      .join('\n');
  const asked = (args: readonly string[], prompt: string, tail = '') =>
    each(args)
      .map(({table, output}) => `${prompt}${name} -t ${table} ${args.join(' ')}${tail}\n${output}`)
      .join('\n');
  const save = node.run(`${tool}-save`, []);
  const nat = run('-t', 'nat', '-S');
  const chains = [...nat.matchAll(/^-[NP] (\S+)/gm)].map(([, chain = '']) => chain);
  const grep = (text: string, word: string) =>
    text
      .split('\n')
      .filter(line => line.includes(word))
      .join('\n');
  const html = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
  const whole = (form: string, text: () => string): Form => ({name: form, text, isWhole: true});
  const part = (form: string, text: () => string): Form => ({name: form, text, isWhole: false});
  return [
    whole('iptables-save -c', () => node.run(`${tool}-save`, ['-c'])),
    whole('iptables-save without headers', () => save.replace(/^#.*\n/gm, '')),
    whole('iptables-save at a prompt', () => `user@node-1:~$ sudo ${name}-save\n${save}`),
    whole('iptables-save in Markdown', () => `# What is on the node\n\nI ran this:\n\n\`\`\`\n${save}\`\`\`\n\nAny idea?\n`),
    whole('iptables-save indented', () => save.replace(/^/gm, '    ')),
    whole('iptables-save in a reply', () => save.replace(/^/gm, '> ')),
    whole('iptables-save in HTML', () => `<html><body><p>Rules:</p>\n<pre><code>${html(save)}</code></pre></body></html>\n`),
    whole('iptables-save with CRLF', () => save.replaceAll('\n', '\r\n')),
    whole('-S', () => bare(['-S'])),
    whole('-S -v', () => asked(['-S', '-v'], '$ ')),
    whole('-S asked for as root', () => asked(['-S'], '[root@node ~]# ')),
    whole('-S by kubectl exec', () => asked(['-S'], '$ kubectl -n kube-system exec kube-proxy-x7 -- ')),
    part('-L', () => asked(['-L'], '# ')),
    part('-L -n', () => asked(['-L', '-n'], '$ sudo ')),
    part('-nL without commands', () => bare(['-nL'])),
    whole('-nvL', () => asked(['-nvL'], 'root@node:/# ')),
    whole('-nvL without commands', () => bare(['-nvL'])),
    whole('-L -n -v -x --line-numbers', () => asked(['-L', '-n', '-v', '-x', '--line-numbers'], '$ ')),
    whole('-nvL in Markdown', () =>
      each(['-nvL'])
        .map(({table, output}) => `## ${table}\n\n\`\`\`console\n$ ${name} -t ${table} -nvL\n${output}\`\`\`\n`)
        .join('\n'),
    ),
    part('-n -L --line-numbers', () => asked(['-n', '-L', '--line-numbers'], '% ')),
    part('-S of nat alone', () => nat),
    part('-S of filter alone', () => run('-S')),
    part('-nvL of nat alone', () => run('-t', 'nat', '-nvL')),
    part('-nvL of filter alone', () => run('-nvL')),
    part('iptables-save -t nat', () => node.run(`${tool}-save`, ['-t', 'nat'])),
    part('iptables-save -t filter', () => node.run(`${tool}-save`, ['-t', 'filter'])),
    part('one chain each by -S', () => chains.map(chain => `$ ${name} -t nat -S ${chain}\n${run('-t', 'nat', '-S', chain)}`).join('\n')),
    part('one chain each by -L', () => chains.map(chain => `$ ${name} -t nat -nL ${chain}\n${run('-t', 'nat', '-nL', chain)}`).join('\n')),
    part('one chain each by -L without commands', () => chains.map(chain => run('-t', 'nat', '-nL', chain)).join('\n')),
    whole('one chain of nat each and all of filter', () =>
      [...chains.map(chain => `$ ${name} -t nat -S ${chain}\n${run('-t', 'nat', '-S', chain)}`), `$ ${name} -S\n${run('-S')}`].join('\n'),
    ),
    part('iptables-save | grep KUBE', () => `$ sudo ${name}-save | grep KUBE\n${grep(save, 'KUBE')}\n`),
    part(
      'iptables-save | grep -v KUBE-SEP',
      () =>
        `$ ${name}-save | grep -v KUBE-SEP\n${save
          .split('\n')
          .filter(line => !line.includes('KUBE-SEP'))
          .join('\n')}\n`,
    ),
    part('rules that grep left, without the command', () => grep(save, '-A KUBE')),
    part('rules of one kind, without the command', () => grep(save, 'KUBE-SVC')),
    part('-S -t nat | grep default', () => `# ${name} -S -t nat | grep default\n${grep(nat, 'default')}\n`),
    part('some chains of -L', () => someChains(run('-t', 'nat', '-nL'))),
    part('-nvL with rows left out', () => run('-t', 'nat', '-nvL').replace(/^(Chain KUBE-SERVICES.*\n.*\n)(?:.+\n){2}/m, '$1...\n')),
    part('a list of Markdown', () => grep(nat, '-A').replace(/^/gm, '* ')),
    part('-S that ends in the middle', () => `$ ${name} -t nat -S\n${nat.slice(0, Math.floor(nat.length * 0.7))}`),
  ];
}

/** Every other chain. */
function someChains(listing: string): string {
  return listing
    .split(/\n\n/)
    .filter((_, index) => index % 2 === 0)
    .join('\n\n');
}

/** Forms of nftables. */
export function listNftForms(node: Namespace): readonly Form[] {
  const list = (...args: readonly string[]) => node.run('nft', args);
  const whole = (name: string, text: () => string): Form => ({name, text, isWhole: true});
  const part = (name: string, text: () => string): Form => ({name, text, isWhole: false});
  const all = list('list', 'ruleset');
  const table = list('list', 'table', 'ip', 'kube-proxy');
  const objects = [...table.matchAll(/^\t(chain|map|set) (\S+) \{$/gm)].map(([, kind = '', name = '']) => ({kind, name}));
  const one = ({kind, name}: {readonly kind: string; readonly name: string}) =>
    `# nft list ${kind} ip kube-proxy ${name}\n${list('list', kind, 'ip', 'kube-proxy', name)}`;
  return [
    whole('nft list ruleset', () => all),
    whole('nft -a list ruleset', () => list('-a', 'list', 'ruleset')),
    whole('nft -j list ruleset', () => list('-j', 'list', 'ruleset')),
    whole('nft list ruleset at a prompt', () => `[root@node ~]# nft list ruleset\n${all}`),
    whole('nft list ruleset in Markdown', () => `So this is what I see:\n\n\`\`\`\n${all}\`\`\`\n\nAny idea?\n`),
    whole('nft list ruleset in a reply', () => all.replace(/^/gm, '> ')),
    whole(
      'nft list ruleset in HTML',
      () => `<pre>${all.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')}</pre>\n`,
    ),
    whole('nft list table', () => `$ sudo nft list table ip kube-proxy\n${table}`),
    whole(
      'nft list table by kubectl exec',
      () => `$ kubectl exec -n kube-system kube-proxy-abcde -- nft list table ip kube-proxy\n${table}`,
    ),
    whole('every chain, map and set by its own command', () => objects.map(one).join('\n')),
    part('nft list chain services', () => one({kind: 'chain', name: 'services'})),
    part('nft list map service-ips', () => one({kind: 'map', name: 'service-ips'})),
    part('all chains and no maps', () =>
      objects
        .filter(({kind}) => kind === 'chain')
        .map(one)
        .join('\n'),
    ),
    part('every other object', () =>
      objects
        .filter((_, index) => index % 2 === 0)
        .map(one)
        .join('\n'),
    ),
    part(
      'nft list ruleset | grep service',
      () =>
        `$ nft list ruleset | grep service\n${all
          .split('\n')
          .filter(line => line.includes('service'))
          .join('\n')}\n`,
    ),
    part('nft list ruleset with rules left out', () => all.replace(/^(\tchain services \{\n)(?:.*\n){2}/m, '$1\t\t...\n')),
    part('nft list ruleset that ends in the middle', () => all.slice(0, Math.floor(all.length * 0.6))),
  ];
}
