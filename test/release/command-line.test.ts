import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {describe, expect, test} from 'vitest';

const release = (...args: string[]) =>
  execa(process.execPath, [join(import.meta.dirname, '../../tools/release.ts'), ...args], {reject: false});

describe('npm run release', () => {
  test('--help prints the usage and builds nothing', async () => {
    const {stdout, stderr, exitCode} = await release('--help');
    expect(stdout).toMatch(/^Usage: npm run release -- /);
    expect(stdout).toContain('linux_amd64');
    expect({stderr, exitCode}).toEqual({stderr: '', exitCode: 0});
  });

  test.each([['--plattform'], ['--platform', 'linux_mips'], ['compiel']])(
    '%s is an error with the usage, not a stack trace',
    async (...args) => {
      const {stderr, exitCode} = await release(...args);
      expect(stderr).toContain('Usage: npm run release -- ');
      expect(stderr).not.toMatch(/^\s+at /m);
      expect(exitCode).toBe(2);
    },
  );
});
