import {expect, test} from 'vitest';
import {junit} from '../../src/render/ci/junit.ts';
import {markdown} from '../../src/render/ci/markdown.ts';
import {checkPage} from '../../src/render/html/pages.ts';
import {json} from '../../src/render/json.ts';
import {plain, reportOf} from './report.ts';

const attack = 'v1.36\n::error::owned\u001b]0;title\u0007\r\u2028';
const provenance = {command: `svc-trace check ${attack}`, source: attack, serverVersion: attack, takenAt: attack};

test.each(Object.entries({junit, markdown, checkPage, json}))(
  'in %s, no value of a server or a bundle begins a line or holds a control character',
  (_, render) => {
    const text = render({...reportOf({nodes: ['node-a'], services: ['shop/web']}), scope: attack}, {...plain, provenance});
    expect(text).toContain('owned');
    expect(text).not.toMatch(/^[^\S\n]*::error/m);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be printed
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f\u2028]/);
  },
);
