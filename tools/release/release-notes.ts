/** The section of CHANGELOG.md for a version; while it has none, what is "Unreleased". Throws when there is neither. */
export function releaseNotes(changelog: string, version: string): string {
  const text = sectionOf(changelog, version) ?? sectionOf(changelog, 'Unreleased');
  if (text === undefined) throw new Error(`CHANGELOG.md has no section for ${version}`);
  return `${text}\n`;
}

function sectionOf(changelog: string, heading: string): string | undefined {
  const sections = changelog.split(/^## /m).slice(1);
  const found = sections.find(section => section.startsWith(`[${heading}]`));
  return (
    found
      // What stands above the first change is about the file.
      ?.replace(/^.*?(?=^(?:### |- ))/ms, '')
      .replace(/^\[[^\]]+\]: .*$/gm, '')
      .trim()
  );
}
