/** One change of a ruleset of nftables, given as text. */
export interface NftMutation {
  readonly kind: NftMutationKind;
  /** Where: the chain or set, and the rule or element. */
  readonly place: string;
  readonly text: string;
}

type NftMutationKind = 'deletion' | 'doubling' | 'other port' | 'other address' | 'other shares' | 'other source' | 'other verdict';

/** Every rule deleted and doubled, every element deleted, and addresses, ports, shares and verdicts made others. */
export function nftMutations(ruleset: string): readonly NftMutation[] {
  const lines = ruleset.split('\n');
  let name = '';
  let isChain = false;
  return lines.flatMap((line, at) => {
    const head = /^\t(chain|set|map) (\S+) \{/.exec(line);
    if (head !== null) [isChain, name] = [head[1] === 'chain', head[2] ?? ''];
    const isInner = head === null && line.startsWith('\t\t') && !/^\t\t(?:type|comment|size|flags|timeout)\b/.test(line);
    if (!isInner) return [];
    const put = (by: readonly string[]): string => lines.toSpliced(at, 1, ...by).join('\n');
    const place = `${name}: ${line.trim()}`;
    return (isChain ? ruleMutations(line, place, put) : elementMutations(line, place, put)).filter(({text}) => text !== ruleset);
  });
}

type Put = (by: readonly string[]) => string;

function ruleMutations(line: string, place: string, put: Put): readonly NftMutation[] {
  const other = (kind: NftMutationKind, part: RegExp, by: string): NftMutation => ({kind, place, text: put([line.replace(part, by)])});
  return [
    {kind: 'deletion', place, text: put([])},
    {kind: 'doubling', place, text: put([line, line])},
    other('other port', /(?<before>(?: dnat to |0 : )\S+?(?:\d| \. |\]):?)(?<port>\d{2,5})(?=[ ,]|$)/, '$<before>6'),
    other('other address', /(?<before>dnat to |0 : )(?:\d+\.){3}\d+/, '$<before>10.99.9.9'),
    other('other shares', /0 : (?<first>[^,]+), 1 : [^,}]+(?=[,}])/, '0 : $<first>, 1 : $<first>'),
    other('other source', /10\.244\.0\.0\/16/, '10.99.0.0/16'),
  ];
}

/** Only elements that stand on a line of their own: what is left must be a list still. */
function elementMutations(line: string, place: string, put: Put): readonly NftMutation[] {
  const verdict = / : goto (?:service|local|external)-\S+?(?=,| \}|$)/;
  const changed: NftMutation[] = verdict.test(line) ? [{kind: 'other verdict', place, text: put([line.replace(verdict, ' : drop')])}] : [];
  if (/^\t+ {2,}[^,]+,$/.test(line)) changed.push({kind: 'deletion', place, text: put([])});
  return changed;
}
