/** Whether kube-proxy's nftables mode refuses to run on a kernel, which it does before 5.13; null if the version is unknown. */
export function isKernelTooOldForNftables(version: string): boolean | null {
  return isOlderKernel(version, [5, 13]);
}

/** Whether a kernel (`5.4.0-150-generic`) is older than a version; null if its version is unknown. */
export function isOlderKernel(version: string, [major, minor]: readonly [major: number, minor: number]): boolean | null {
  const found = /^(\d+)\.(\d+)/.exec(version);
  if (found === null) return null;
  const [own, ownMinor] = [Number(found[1]), Number(found[2])];
  return own < major || (own === major && ownMinor < minor);
}
