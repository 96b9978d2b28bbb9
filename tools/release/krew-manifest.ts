/**
 * The manifest for krew: the template with the version and the sums of the archives in it.
 * @param sums by the names of the archives
 * Throws when the template names an archive of which there is no sum.
 */
export function krewManifest(template: string, version: string, sums: ReadonlyMap<string, string>): string {
  const dated = template.replaceAll(/(?<=[\s/_])v\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?=[\s/_])/g, `v${version}`).replace(/^#.*\n/gm, '');
  return dated.replaceAll(/^( +uri: \S+\/)(\S+)(\n +sha256: )".*"$/gm, (_, uri: string, archive: string, field: string) => {
    const sum = sums.get(archive);
    if (sum === undefined) throw new Error(`krew-manifest.yaml names ${archive}, which was not made`);
    return `${uri}${archive}${field}"${sum}"`;
  });
}
