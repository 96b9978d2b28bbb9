import {pushTo} from '../../model/lists.ts';
import {someOf} from '../../model/text.ts';
import {undecorate} from '../iptables/pasted-text.ts';

/** A row of a table that kubectl prints. */
interface Row {
  /** With its namespace where the table has them. */
  readonly name: string;
  /** The text of a column; empty if the table does not have it. */
  field(name: string): string;
}

/** The rows about Services and Endpoints that `kubectl get` prints. */
function rowsOf(lines: readonly string[]): readonly Row[] {
  let heading: readonly string[] = [];
  let place = 0;
  return lines.flatMap((line): readonly Row[] => {
    if (heading.length === 0 && !line.includes('NAME')) return [];
    const text = undecorate(line).trim();
    // A page that renders a text as HTML drops <none>.
    const isBlank = place > 0 && text.slice(place - 2, place + 'ENDPOINTS'.length).trim() === '' && text.length > place;
    const row = (isBlank ? `${text.slice(0, place)}<none>${text.slice(place + '<none>'.length)}` : text).split(/\s{2,}|\t/);
    if (row.includes('NAME') && row.some(field => /^(?:CLUSTER-IP|ENDPOINTS)$/.test(field))) {
      heading = row;
      place = text.indexOf('ENDPOINTS');
    } else if (row.length < heading.length) heading = [];
    else if (heading.length > 0) {
      const columns = heading;
      const field = (name: string): string => row[columns.indexOf(name)] ?? '';
      const name = [columns.includes('NAMESPACE') ? field('NAMESPACE') : [], field('NAME').replace(/^\w+\//, '')].flat().join('/');
      return [{name, field}];
    }
    return [];
  });
}

/** What `kubectl get` says of Services and Endpoints, to follow the name of the text; null if it lists neither. */
export function listedObjects(lines: readonly string[]): string | null {
  const rows = rowsOf(lines);
  const pending = rows.flatMap(({name, field}) =>
    field('EXTERNAL-IP') === '<pending>' ? `${name} (${field('CLUSTER-IP')}, ${field('PORT(S)')})` : [],
  );
  const empty = rows.flatMap(({name, field}) => (field('ENDPOINTS') === '<none>' ? name : []));
  if (rows.length === 0) return null;
  const waiting =
    pending.length === 0
      ? ''
      : ` ${someOf(pending)}: no controller (of a cloud, MetalLB) gave it an address, which kube-proxy never does. Its cluster IP and node ports do not depend on that.`;
  const refused = empty.length === 0 ? '' : ` ${someOf(empty)}: no endpoint: kube-proxy refuses connections by design.`;
  return `is what kubectl get prints, without rules.${waiting}${refused} To see what a node does, paste iptables-save, nft list ruleset or ipvsadm -Ln`;
}

/**
 * The endpoints of Services, as `ip:port`, that `kubectl get endpoints` or `kubectl describe service` lists whole: by the name of the
 * Service, with its namespace where the text has it. kubectl writes `+ 2 more...` where it leaves some out.
 */
export function listedEndpoints(lines: readonly string[]): ReadonlyMap<string, ReadonlySet<string>> {
  const texts = new Map<string, string[]>();
  for (const {name, field} of rowsOf(lines)) if (field('ENDPOINTS') !== '') pushTo(texts, name, field('ENDPOINTS'));
  let [namespace, name] = ['', ''];
  for (const line of lines) {
    if (!line.includes(': ')) continue;
    const [, field, value = ''] = /^\s*(?:> )?(Name|Namespace|Endpoints):\s+(\S.*?)\s*$/.exec(undecorate(line)) ?? [];
    if (field === 'Name') [namespace, name] = ['', value];
    else if (field === 'Namespace') namespace = `${value}/`;
    else if (field === 'Endpoints' && name !== '') pushTo(texts, `${namespace}${name}`, value);
  }
  const isWhole = (list: readonly string[]): boolean => list.every(text => /^[\da-fA-F.:[\],]+$/.test(text));
  return new Map([...texts].flatMap(([key, list]) => (isWhole(list) ? [[key, new Set(list.flatMap(text => text.split(',')))]] : [])));
}
