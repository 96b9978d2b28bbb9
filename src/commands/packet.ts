import {Flags} from '@oclif/core';
import {selectNodes} from '../command/diagnose-options.ts';
import {outputFlags, sourceFlags} from '../command/flags.ts';
import {askNodes} from '../command/packet-query.ts';
import {packetRenderers} from '../render/packet.ts';
import {BaseCommand} from './base-command.ts';

export default class Packet extends BaseCommand {
  static override summary = "Show what a node's real rules do to one packet";
  static override description =
    "Walks the first packet of a connection through raw, mangle, nat and filter as the kernel does, and prints each outcome with its probability, whether it is masqueraded, and the rules it went through.\nWith a bare dump in place of a bundle no API objects are needed; --local-address then says which addresses are the node's.";
  static override examples = [
    '<%= config.bin %> packet --from ./bundle --node node-a --source 10.244.11.20 --destination shop/web',
    '<%= config.bin %> packet --from iptables-save.txt --source 203.0.113.9 --destination 192.0.2.11 --port 30080 --local-address 192.0.2.11',
  ];
  static override flags = {
    ...sourceFlags,
    ...outputFlags,
    namespace: Flags.string({char: 'n', description: 'namespace of the Service and the pod', helpGroup: 'PACKET'}),
    source: Flags.string({description: 'where it comes from: an address or pod/NAME', required: true, helpGroup: 'PACKET'}),
    destination: Flags.string({description: 'where it goes: an address or a Service', required: true, helpGroup: 'PACKET'}),
    port: Flags.string({description: 'port, or the name of a port of the Service', helpGroup: 'PACKET'}),
    protocol: Flags.string({description: 'protocol', options: ['tcp', 'udp', 'sctp', 'TCP', 'UDP', 'SCTP'], helpGroup: 'PACKET'}),
    'in-interface': Flags.string({description: 'the interface it comes in on', helpGroup: 'PACKET'}),
    'local-address': Flags.string({
      description: 'addresses of the node, when the bundle does not say',
      multiple: true,
      helpValue: 'IP',
      helpGroup: 'PACKET',
    }),
    output: Flags.string({
      char: 'o',
      description: 'output format',
      options: Object.keys(packetRenderers),
      default: 'tree',
      helpGroup: 'OUTPUT',
    }),
  };

  async run(): Promise<void> {
    const {flags} = await this.parse(Packet);
    const snapshot = await this.snapshot(flags.from);
    const answers = askNodes(flags, snapshot, selectNodes(flags, snapshot));
    const render = packetRenderers[flags.output as keyof typeof packetRenderers];
    this.print(render(answers, this.renderOptions(flags)), flags['output-file']);
  }
}
