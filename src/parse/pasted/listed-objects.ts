import {someOf} from '../../model/text.ts';
import {undecorate} from '../iptables/pasted-text.ts';

/** What `kubectl get` says of Services and Endpoints, to follow the name of the text; null if it lists neither. */
export function listedObjects(lines: readonly string[]): string | null {
  const rows = lines.flatMap(line => undecorate(line).trim()).map(text => text.split(/\s{2,}|\t/));
  let heading: readonly string[] = [];
  let count = 0;
  const [pending, empty]: readonly [string[], string[]] = [[], []];
  for (const row of rows) {
    if (row.includes('NAME') && row.some(field => /^(?:CLUSTER-IP|ENDPOINTS)$/.test(field))) heading = row;
    else if (row.length < heading.length) heading = [];
    else if (heading.length > 0) {
      const field = (name: string): string => row[heading.indexOf(name)] ?? '';
      const name = [heading.includes('NAMESPACE') ? field('NAMESPACE') : [], field('NAME').replace(/^\w+\//, '')].flat().join('/');
      count += 1;
      if (field('EXTERNAL-IP') === '<pending>') pending.push(`${name} (${field('CLUSTER-IP')}, ${field('PORT(S)')})`);
      if (field('ENDPOINTS') === '<none>') empty.push(name);
    }
  }
  if (count === 0) return null;
  const waiting =
    pending.length === 0
      ? ''
      : ` ${someOf(pending)}: no controller (of a cloud, MetalLB) gave it an address, which kube-proxy never does. Its cluster IP and node ports do not depend on that.`;
  const refused = empty.length === 0 ? '' : ` ${someOf(empty)}: no endpoint: kube-proxy refuses connections by design.`;
  return `is what kubectl get prints, without rules.${waiting}${refused} To see what a node does, paste iptables-save, nft list ruleset or ipvsadm -Ln`;
}
