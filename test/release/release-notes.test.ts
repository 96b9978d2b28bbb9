import {expect, test} from 'vitest';
import {releaseNotes} from '../../tools/release/release-notes.ts';

const changelog = `# Changelog

## [Unreleased]

Nothing is released yet.

### Added

- b

## [1.0.0] - 2026-01-02

- a

[Unreleased]: https://example.com/x
[1.0.0]: https://example.com/y
`;

test('the notes of a release are its section of the changelog', () => {
  expect(releaseNotes(changelog, '1.0.0')).toBe('- a\n');
});

test('the notes of a release without a section are the unreleased changes', () => {
  expect(releaseNotes(changelog, '1.1.0')).toBe('### Added\n\n- b\n');
  expect(() => releaseNotes('# Changelog\n', '1.0.0')).toThrow('CHANGELOG.md has no section for 1.0.0');
});
