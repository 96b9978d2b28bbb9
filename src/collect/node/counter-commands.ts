import type {NodeCommand} from './node-command.ts';

// Commands that read a node's counters. All of them only list: nothing is reset, and no accounting is switched on.

/** The table nat with its counters, by the program that prints the rules, such as `iptables-save`. */
export function natCommand(program: string): readonly string[] {
  return [program, '-c', '-t', 'nat'];
}

export const ipvsTotalsCommand: readonly string[] = ['ipvsadm', '-Ln', '--stats', '--exact'];
export const ipvsListCommand: readonly string[] = ['ipvsadm', '-Ln'];

/** The tracked connections of a family with their kernel IDs: all, or those to one original destination. */
export function conntrackCommand(family: 'ipv4' | 'ipv6', destination?: string): readonly string[] {
  return ['conntrack', '-L', '-f', family, '-o', 'id', ...(destination === undefined ? [] : ['--orig-dst', destination])];
}

/** Both families, if the program is missing and the kernel provides the file. */
export const conntrackFile: readonly string[] = ['cat', '/proc/net/nf_conntrack'];

/** `rules`: counters of rules. `all`: also all of conntrack, and the counters of IPVS. */
export type CounterScope = 'rules' | 'all';

/** The commands of a node, with counters. */
export function withCounters(commands: readonly NodeCommand[], counters: CounterScope | undefined): readonly NodeCommand[] {
  if (counters === undefined) return commands;
  const counted = commands.map(command => {
    if (command.isDump === true) return withRuleCounters(command);
    return command.file === 'conntrack' && counters === 'all' ? allConnections : command;
  });
  if (counters === 'rules' || !commands.some(({file}) => file === 'ipvsadm-save')) return counted;
  const ipvs = {'ipvsadm-stats': ipvsTotalsCommand, 'ipvsadm-list': ipvsListCommand};
  return [...counted, ...Object.entries(ipvs).map(([file, argv]): NodeCommand => ({file, variants: [{commands: [argv]}]}))];
}

function withRuleCounters(command: NodeCommand): NodeCommand {
  return {...command, variants: command.variants.map(variant => ({...variant, commands: variant.commands.map(argv => [...argv, '-c'])}))};
}

const allConnections: NodeCommand = {
  file: 'conntrack',
  variants: [{commands: [conntrackCommand('ipv4'), conntrackCommand('ipv6')]}, {commands: [conntrackFile]}],
};
