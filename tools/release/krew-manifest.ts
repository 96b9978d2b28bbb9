import {dump} from 'js-yaml';
import {archiveName, executableName, platforms} from './platforms.ts';

/**
 * The name in krew's index, and so what users type after `kubectl`. krew's naming guide prefers words to abbreviations such as svc: if its
 * reviewers do, this becomes `service-trace`, and nothing else has to be changed (docs/dev/release.md).
 */
export const krewName: string = 'svc-trace';

/**
 * The manifest for krew-index.
 * @param sums by the names of the archives
 * Throws when there is no sum of an archive.
 */
export function krewManifest(version: string, sums: ReadonlyMap<string, string>, name = krewName): string {
  const manifest = {
    apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
    kind: 'Plugin',
    metadata: {name},
    spec: {
      version: `v${version}`,
      homepage: 'https://github.com/svc-trace/svc-trace',
      shortDescription: "Trace Services through kube-proxy's rules",
      description,
      caveats: caveats(name, version),
      platforms: platforms.map(platform => {
        const archive = archiveName(platform, version);
        const sha256 = sums.get(archive);
        if (sha256 === undefined) throw new Error(`there is no checksum of ${archive}`);
        const uri = `https://github.com/svc-trace/svc-trace/releases/download/v${version}/${archive}`;
        return {selector: {matchLabels: {os: platform.os, arch: platform.arch}}, uri, sha256, bin: executableName(platform)};
      }),
    },
  };
  return dump(manifest, {lineWidth: -1});
}

const description = `Traces a Service through kube-proxy's actual rules on every node
(iptables, nftables, IPVS) to each endpoint, and compares them with the
rules that kube-proxy should have written. On nodes of Cilium (1.18 and
later), the agent's table and the kernel's map are compared. Missing, stale
and wrong rules are reported with the node, the line and the remedy: for
one Service, or for all of them in CI.

Nodes are read through pods that already run there, or from a saved bundle.
Nothing is changed, and nothing is created unless you ask for it.
`;

function caveats(name: string, version: string): string {
  const otherName = `\nHelp and output say "kubectl svc-trace": type "kubectl ${name}".\n`;
  const completer = `kubectl_complete-${name.replaceAll('-', '_')}`;
  // krew's validator wants lines of at most 80 characters. The link is relative to its own folder.
  return `Reading nodes requires exec into pods of kube-system, or another transport:
see "kubectl ${name} access".
${name === 'svc-trace' ? '' : otherName}
For completion of "kubectl ${name}", link kubectl_complete-svc_trace of
the archive next to kubectl-${name.replaceAll('-', '_')}:
  ln -s ../store/${name}/v${version}/kubectl_complete-svc_trace \\
    "\${KREW_ROOT:-$HOME/.krew}/bin/${completer}"
`;
}
