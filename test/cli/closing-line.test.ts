import process from 'node:process';
import {afterEach, describe, expect, test, vi} from 'vitest';
import {withClosingLine} from '../../src/cli/closing-line.ts';
import {findingOf, plain, reportOf, unreadNode} from '../render/report.ts';

const one = (severity: 'error' | 'warning') =>
  reportOf({nodes: ['node-a'], services: ['shop/web'], findings: [findingOf('node-a', 'shop/web', {code: 'ST202', severity})]});
const long = 'a line\n'.repeat(40);

afterEach(() => vi.unstubAllGlobals());

function onScreenOf(rows: number): void {
  vi.stubGlobal('process', process);
  vi.spyOn(process, 'stdout', 'get').mockReturnValue(Object.assign(Object.create(process.stdout), {isTTY: true, rows}));
}

describe('the end of a report', () => {
  test('says the first line again and why the exit code is what it is, if the report is longer than the screen', () => {
    onScreenOf(24);
    expect(withClosingLine(long, one('error'), {...plain, width: Infinity})).toMatch(
      /\n\nFAULTY: shop\/web on node-a: .* \(ST202\); 1 error on 1 of 1 node .*; exit code 1: 1 error and --fail-on error$/,
    );
    expect(withClosingLine('a line', one('error'), plain)).toBe('a line');
  });

  test.each([
    [one('warning'), 'warning', 'exit code 1: 1 warning and --fail-on warning'],
    [one('error'), 'never', 'exit code 0: 1 error and --fail-on never'],
  ] as const)('gives the reason alone if --fail-on makes it another code than usual', (report, failOn, reason) => {
    expect(withClosingLine('a line', report, {...plain, failOn})).toBe(`a line\n\n${reason}`);
    expect(withClosingLine('a line', report, plain)).toBe('a line');
  });

  test.each([
    [reportOf({nodes: ['node-a', unreadNode('node-b', 'no answer')], services: ['shop/web']}), 'exit code 3: not everything was checked'],
    [one('warning'), 'exit code 0: warnings fail with --fail-on warning only'],
    [reportOf({nodes: ['node-a'], services: ['shop/web']}), 'exit code 0'],
  ])('explains the other codes', (report, reason) => {
    onScreenOf(24);
    expect(withClosingLine(long, report, plain).replaceAll('\n', ' ')).toContain(reason);
  });
});
