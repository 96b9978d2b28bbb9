import {globSync, readFileSync} from 'node:fs';
import {basename, join} from 'node:path';
import {load} from 'js-yaml';
import {describe, expect, test} from 'vitest';
import {parseCommandLine} from '../parse-command-line.ts';

interface Form {
  readonly name: string;
  readonly description: string;
  readonly body: readonly {
    readonly type: string;
    readonly id?: string;
    readonly attributes: {readonly label?: string; readonly value?: string};
  }[];
}

const root = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

describe.each(globSync('.github/ISSUE_TEMPLATE/[0-9]*.yml', {cwd: root}).sort())('%s', path => {
  const form = load(read(path)) as Form;
  const {name, description, body} = form;

  // What GitHub refuses: https://docs.github.com/communities/using-templates-to-encourage-useful-issues-and-pull-requests/syntax-for-githubs-form-schema
  test(`is a form that GitHub accepts: ${basename(path)}`, () => {
    expect(
      Object.keys(form).filter(key => !['name', 'description', 'title', 'labels', 'assignees', 'projects', 'type', 'body'].includes(key)),
    ).toEqual([]);
    for (const {type, attributes, ...rest} of body) {
      expect(Object.keys(rest).filter(key => key !== 'id' && key !== 'validations')).toEqual([]);
      const allowed =
        type === 'markdown' ? ['value'] : ['label', 'description', 'placeholder', 'value', ...(type === 'textarea' ? ['render'] : [])];
      expect(Object.keys(attributes).filter(key => !allowed.includes(key))).toEqual([]);
    }
    expect([name, description].every(text => text.length > 3)).toBe(true);
    const fields = body.filter(({type}) => type !== 'markdown');
    expect(fields.length).toBeGreaterThan(0);
    for (const {type, attributes} of body) {
      expect(['markdown', 'textarea', 'input', 'dropdown', 'checkboxes']).toContain(type);
      expect(type === 'markdown' ? attributes.value : attributes.label).toBeTruthy();
    }
    const labels = fields.map(({attributes}) => attributes.label);
    expect(new Set(labels).size).toBe(labels.length);
    const ids = fields.map(({id}) => id);
    expect(new Set(ids).size).toBe(fields.length);
    expect(ids.every(id => /^[\w-]+$/.test(id ?? ''))).toBe(true);
  });

  test('names command lines that are right', async () => {
    // Placeholders are no names of objects until they are filled in.
    for (const [, line = ''] of read(path).matchAll(/`kubectl svc-trace ([^`]+)`/g))
      if (line !== '--version') await parseCommandLine(line.replace('NAMESPACE', 'shop').split(' '));
  });
});

test('the form for a wrong result asks for a redacted bundle', () => {
  expect(read('.github/ISSUE_TEMPLATE/1-wrong-result.yml')).toMatch(/`kubectl svc-trace capture -o \S+ --redact`/);
});

test('the devcontainer has the packages that .ci/run installs', () => {
  const packagesOf = (path: string) =>
    (/apt-get install (.*)$/m.exec(read(path))?.[1] ?? '')
      .split(' ')
      .filter(word => !word.startsWith('-') && word !== 'git' && word !== '\\');
  expect(packagesOf('.ci/run').length).toBeGreaterThan(5);
  expect(packagesOf('.devcontainer/Dockerfile')).toEqual(packagesOf('.ci/run'));
});
