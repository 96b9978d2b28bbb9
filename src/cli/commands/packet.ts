import {Flags} from '@oclif/core';
import type {PacketAnswers} from '../../run/packet/ask-cluster.ts';
import {connectionFlags, transportFlags} from '../options/cluster-flags.ts';
import {selectNodes} from '../options/diagnose-options.ts';
import {inGroup, namespaceNames, outputFlag, outputFlags, quietFlag, sourceFlags, verboseFlag} from '../options/flags.ts';
import type {NodeSourceFlags} from '../../run/nodes/node-source.ts';
import {askNodes, notAmong, type PacketFlags, startNode, withPrintedPorts} from '../../run/packet/packet-flags.ts';
import {kubeProxyTrouble} from '../../checks/kube-proxy.ts';
import {isRulesAlone, notInBundle} from '../../model/snapshot.ts';
import {escapeText} from '../../render/renderer.ts';
import {packetRenderers} from '../../render/table/packet-report.ts';
import {type ArchiveFlag, BaseCommand, type LiveFlags} from './base-command.ts';
import {notRead} from '../../run/wrong-use.ts';

export default class PacketCommand extends BaseCommand {
  static override summary = 'Show what the rules of a node do to one packet';
  static override description =
    "Walks the first packet of a connection, the reply and the next packet through raw, mangle, nat and filter of both backends, and through all nftables tables, as the kernel does. Where the packet is sent on to an endpoint on another of the chosen nodes, that node's rules follow. Prints each outcome with its probability, whether it is masqueraded, and its path through the rules, and for which senders it holds.\nA bare dump works in place of a bundle and needs no API objects; --local-address names the node's addresses.";
  static override examples = [
    '<%= config.bin %> packet --from ./bundle --node node-a --source 10.244.11.20 --destination shop/web',
    '<%= config.bin %> packet --from iptables-save.txt --source 203.0.113.9 --destination 192.0.2.11 --port 30080 --local-address 192.0.2.11',
  ];
  static override flags = {
    ...sourceFlags,
    ...connectionFlags,
    ...transportFlags,
    ...outputFlags,
    quiet: quietFlag('no progress on standard error'),
    verbose: verboseFlag('each node by itself, with its own line numbers and senders'),
    ...inGroup('PACKET', {
      namespace: Flags.string({char: 'n', description: 'namespace of the Service and the pod', parse: async text => namespaceNames(text)}),
      source: Flags.string({description: 'where it comes from: an address or pod/NAME', required: true}),
      destination: Flags.string({description: 'where it goes: an address or a Service', required: true}),
      port: Flags.string({description: 'port, or the name of a port of the Service'}),
      protocol: Flags.string({description: 'protocol', options: ['tcp', 'udp', 'sctp', 'icmp', 'TCP', 'UDP', 'SCTP', 'ICMP']}),
      'source-port': Flags.integer({description: 'the port it comes from; any if not given', min: 1, max: 65_535}),
      'in-interface': Flags.string({description: 'the interface it comes in on'}),
      'local-address': Flags.string({description: 'addresses of the node, when the bundle does not say', multiple: true, helpValue: 'IP'}),
    }),
    output: outputFlag(packetRenderers, 'tree'),
  };

  async run(): Promise<void> {
    const {flags} = await this.parse(PacketCommand);
    const {answers, unread, notes = []} = await this.answers(withPrintedPorts(flags));
    if (answers.length === 0) throw notRead(`no node could be read: ${unread.join('; ') || 'no nodes were found'}`);
    for (const reason of [...notes, ...unread]) process.stderr.write(`not read: ${reason}\n`);
    const render = packetRenderers[flags.output as keyof typeof packetRenderers];
    this.print(render(answers, this.renderOptions(flags)), flags['output-file']);
    if (unread.length > 0) process.exitCode ??= 3;
  }

  private async answers(
    flags: PacketFlags & NodeSourceFlags & LiveFlags & ArchiveFlag & {readonly from?: string | undefined},
  ): Promise<PacketAnswers> {
    if (flags.from === undefined) {
      const {askCluster} = await import('../../run/packet/ask-cluster.ts');
      return this.withCluster(flags, live => askCluster({flags, ...live}));
    }
    const snapshot = await this.snapshot(flags.from, flags);
    const chosen = selectNodes(flags, snapshot);
    const start = startNode(flags, snapshot);
    const nodes = snapshot.nodes.filter(({name}) => chosen(name));
    if (isRulesAlone(snapshot))
      for (const node of nodes) {
        const {log} = kubeProxyTrouble({api: snapshot.api, node});
        if (log !== null) process.stderr.write(`${escapeText(`kube-proxy: ${log}`)}\n`);
      }
    const answers = askNodes(flags, {...snapshot, nodes}, name => start === null || name === start);
    const absent = (flags.node ?? [])
      .filter(name => !nodes.some(node => node.name === name))
      .map(name => `${name}: ${snapshot.unread?.find(one => one.name === name)?.reason ?? notInBundle}`);
    return {answers, unread: start === null || answers.length > 0 ? absent : [...absent, notAmong(flags.source, start)]};
  }
}
