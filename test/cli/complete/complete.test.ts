import {describe, expect, test} from 'vitest';
import type {CommandSpec, FlagSpec} from '../../../src/cli/complete/command-spec.ts';
import {type CommandWords, complete, valueKind, type ValueKind} from '../../../src/cli/complete/complete.ts';

const option = (name: string, more: Partial<FlagSpec> = {}): FlagSpec => ({name, type: 'option', description: `the ${name}`, ...more});
const flags = {
  output: option('output', {char: 'o', options: ['table', 'json', 'junit']}),
  namespace: option('namespace', {char: 'n', helpValue: 'NAMESPACE'}),
  node: option('node', {helpValue: 'NODE', multiple: true}),
  only: option('only', {helpValue: 'CODES', multiple: true}),
  from: option('from', {helpValue: 'BUNDLE'}),
  zone: option('zone', {helpValue: 'ZONE'}),
  source: option('source'),
  secret: option('secret', {hidden: true}),
  'all-namespaces': {name: 'all-namespaces', type: 'boolean', char: 'A'},
  'masquerade-all': {name: 'masquerade-all', type: 'boolean', allowNo: true},
} satisfies Record<string, FlagSpec>;

const commands: readonly CommandSpec[] = [
  {id: 'check', summary: 'Check', flags, args: {service: {name: 'service'}}, strict: false},
  {id: 'trace', summary: 'Trace', flags, args: {service: {name: 'service'}}, strict: false},
  {id: 'explain', summary: 'Explain', flags: {}, args: {code: {name: 'code'}}},
  {id: 'diff', summary: 'Compare', flags: {}, args: {before: {name: 'before'}, after: {name: 'after'}}},
  {id: 'completion', summary: 'Script', flags: {}, args: {shell: {name: 'shell', options: ['bash', 'zsh']}}},
  {id: 'secret', hidden: true, flags: {}},
];

const names: Readonly<Record<ValueKind, readonly string[]>> = {
  services: ['web', 'db', 'check-me'],
  pods: ['pod/web-1', 'pod/web-2', 'pod/db-1'],
  namespaces: ['shop', 'infra'],
  nodes: ['node-a', 'node-b'],
  contexts: [],
  clusters: [],
  users: [],
  codes: ['ST101', 'ST102', 'ST201'],
  files: [],
};

/** The line as it was typed up to the cursor: `check -o |` ends in a blank where a new word begins. */
async function completing(
  line: string,
): Promise<{values: readonly string[]; files: boolean; noSpace: boolean; asked: readonly CommandWords[]}> {
  const words = line.split(' ');
  const asked: CommandWords[] = [];
  const {candidates, ...rest} = await complete(words.slice(0, -1), words.at(-1) ?? '', {
    commands,
    lookUp: async (kind, known) => {
      asked.push(known);
      return names[kind].map(value => ({value}));
    },
  });
  return {values: candidates.map(({value}) => value), ...rest, asked};
}

const valuesOf = async (line: string) => (await completing(line)).values;

test('the source of a packet may be a pod', async () => {
  expect(await valuesOf('check --source pod/w')).toEqual(['pod/web-1', 'pod/web-2']);
  expect(await valuesOf('check --source=pod/db')).toEqual(['pod/db-1']);
});

describe('the first word', () => {
  test('is a command that is not hidden', async () => {
    expect(await valuesOf('')).toEqual(['check', 'trace', 'explain', 'diff', 'completion', 'help']);
  });

  test('is looked up in the cluster only if no command has this prefix', async () => {
    expect(await completing('che')).toMatchObject({values: ['check'], asked: []});
    expect(await valuesOf('we')).toEqual(['web']);
  });

  test('may come after flags and their values', async () => {
    expect(await valuesOf('-n shop --node node-a ch')).toEqual(['check']);
    expect(await valuesOf('-n shop w')).toEqual(['web']);
  });
});

describe('a flag', () => {
  test('is one of the command, and is offered again only if it may be repeated', async () => {
    expect(await valuesOf('check --n')).toEqual(['--namespace', '--node']);
    expect(await valuesOf('check -n shop --node node-a --n')).toEqual(['--node']);
    expect(await valuesOf('explain -')).toEqual(['--help']);
  });

  test('is offered in its short form after a single dash only, and with no- after --no-', async () => {
    expect(await valuesOf('check -')).toEqual(expect.arrayContaining(['-o', '--output', '-A']));
    expect(await valuesOf('check --')).not.toContain('-o');
    expect(await valuesOf('check --no')).toContain('--no-masquerade-all');
    expect(await valuesOf('check --')).not.toContain('--no-masquerade-all');
    expect(await valuesOf('check --')).not.toContain('--secret');
  });

  test('is one of trace if no command is given', async () => {
    expect(await valuesOf('--out')).toEqual(['--output']);
    expect(await valuesOf('web --out')).toEqual(['--output']);
  });

  test('is not offered after --', async () => {
    expect(await valuesOf('check -- --')).toEqual([]);
  });
});

describe('the value of a flag', () => {
  test.each(['check --output j', 'check -o j', 'check --output=j', '-o j', 'web -o j'])('is one of the allowed values: %s', async line => {
    expect(await valuesOf(line)).toEqual(['json', 'junit']);
  });

  test('is looked up for namespaces, nodes and codes', async () => {
    expect(await valuesOf('check -n ')).toEqual(['shop', 'infra']);
    expect(await valuesOf('check --node=node-b')).toEqual(['node-b']);
    expect(await valuesOf('check --only st10')).toEqual(['ST101', 'ST102']);
  });

  test('that is a list keeps its first items, and accepts more', async () => {
    expect(await completing('check --only ST101,st')).toMatchObject({values: ['ST101,ST102', 'ST101,ST201'], noSpace: true, files: false});
  });

  test('that is a file is left to the shell, and that of an unknown flag is not', async () => {
    expect(await completing('check --from ')).toMatchObject({values: [], files: true});
    expect(await completing('check --from=')).toMatchObject({values: [], files: true});
    expect(await completing('check --zone ')).toMatchObject({values: [], files: false, asked: []});
    expect(await completing('check --masquerade-all=')).toMatchObject({values: [], files: false});
    expect(await completing('check --unheard=')).toMatchObject({values: [], files: false});
  });
});

describe('an argument', () => {
  test('is a Service that is not yet named', async () => {
    expect(await valuesOf('check ')).toEqual(['web', 'db', 'check-me']);
    expect(await valuesOf('check web ')).toEqual(['db', 'check-me']);
    expect(await valuesOf('web ')).toEqual(['db', 'check-me']);
  });

  test('is looked up with the given flags', async () => {
    const {asked} = await completing('-n shop check -A --node a --node b ');
    expect(asked[0]?.flags).toEqual(
      new Map([
        ['namespace', ['shop']],
        ['all-namespaces', ['true']],
        ['node', ['a', 'b']],
      ]),
    );
    expect((await completing('check -nshop ')).asked[0]?.flags.get('namespace')).toEqual(['shop']);
  });

  test('is a code, a shell or a file if the command takes one, and nothing if it takes no more', async () => {
    expect(await valuesOf('explain st2')).toEqual(['ST201']);
    expect(await valuesOf('explain ST201 ')).toEqual([]);
    expect(await valuesOf('completion ')).toEqual(['bash', 'zsh']);
    expect(await completing('diff a ')).toMatchObject({values: [], files: true});
    expect(await completing('diff a b ')).toMatchObject({values: [], files: false});
  });
});

test.each([
  [{name: 'x', helpValue: 'DIR|FILE.tgz'}, 'files'],
  [{name: 'debug-namespace', helpValue: 'NAMESPACE'}, 'namespaces'],
  [{name: 'context', helpValue: 'NAME'}, 'contexts'],
  [{name: 'image-pull-secret', helpValue: 'NAME'}, null],
])('the values of %j are %s', (spec, kind) => {
  expect(valueKind(spec)).toBe(kind);
});
