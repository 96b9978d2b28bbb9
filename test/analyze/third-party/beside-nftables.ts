import {EditableDump} from '../../editable-dump.ts';
import {snapshotOf} from '../../fixtures.ts';
import {Scenario} from '../../scenario.ts';
import {addPodsOf, addressesWith, type ThirdPartyRules, thirdPartyRules, ipsets, mergedDump} from './merge.ts';

/** Programs beside kube-proxy of today: nftables mode came after the others. */
export const programs = thirdPartyRules().filter(({capture}) => capture === 'healthy/1.36-iptables');

/** node-a of a capture of nftables mode, with the rules of a program in iptables, changed or not. */
export async function scenarioBesideNft(
  {name}: Pick<ThirdPartyRules, 'name'>,
  change: (rules: EditableDump) => void = () => undefined,
): Promise<Scenario> {
  const rules = new EditableDump(withoutKubeProxy(mergedDump(name)));
  change(rules);
  const given = new Scenario(await snapshotOf('nftables/1.36'));
  given.file('node-a', 'iptables-save', rules.toString());
  given.file('node-a', 'ipset-save', ipsets(name));
  given.file('node-a', 'addresses.json', addressesWith(name, 'nftables/1.36'));
  addPodsOf(given, name);
  return given;
}

/** What a node holds of iptables where kube-proxy does not write there. The kubelet's chains stay. */
export function withoutKubeProxy(dump: string): string {
  const own =
    /^(?:KUBE-(?:SERVICES|NODEPORTS|EXTERNAL-SERVICES|PROXY-FIREWALL|FORWARD|POSTROUTING|MARK-MASQ|PROXY-CANARY)|KUBE-(?:SVC|SVL|SEP|EXT|FW)-.*)$/;
  const isOwn = (line: string): boolean =>
    own.test(/^(?::|-A )(\S+)/.exec(line)?.[1] ?? '') || own.test(/ -[jg] (\S+)/.exec(line)?.[1] ?? '');
  return dump
    .split('\n')
    .filter(line => !isOwn(line))
    .join('\n');
}
