/** Commands that read what a node counted. All of them only list: nothing is reset, and no accounting is switched on. */

/** The table nat with its counters, by the program that printed the rules, such as `iptables-save`. */
export function natCommand(program: string): readonly string[] {
  return [program, '-c', '-t', 'nat'];
}

export const ipvsTotalsCommand: readonly string[] = ['ipvsadm', '-Ln', '--stats', '--exact'];
export const ipvsListCommand: readonly string[] = ['ipvsadm', '-Ln'];

/** All tracked connections of a family, each with the kernel's number for it. */
export function conntrackCommand(family: 'ipv4' | 'ipv6'): readonly string[] {
  return ['conntrack', '-L', '-f', family, '-o', 'id'];
}

/** Both families, where the program is missing and the kernel has the file. */
export const conntrackFile: readonly string[] = ['cat', '/proc/net/nf_conntrack'];
