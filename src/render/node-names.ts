/** Names of nodes that differ in only one number or last letter. */
interface NodeRange {
  /** `node-[a-c]`, `worker-[01-12,15]`, or a name. Not escaped. */
  readonly text: string;
  /** How many nodes it stands for. */
  readonly size: number;
}

/** Consecutive names of nodes as ranges, in the order of the given names. */
export function nodeRanges(names: readonly string[]): readonly NodeRange[] {
  const families = new Map<string, Member[]>();
  for (const name of names) {
    const member = memberOf(name);
    const key = JSON.stringify([member.before, member.after, member.kind]);
    const family = families.get(key);
    if (family === undefined) families.set(key, [member]);
    else family.push(member);
  }
  return [...families.values()].flatMap(sameLength).map(rangeOf);
}

interface Member {
  readonly name: string;
  readonly before: string;
  readonly after: string;
  readonly kind: 'number' | 'letter' | 'name';
  /** How many digits the number has. */
  readonly digits: number;
  readonly value: number;
}

/** The last number in the name is counted, or a single letter at its end. */
function memberOf(name: string): Member {
  const [, before = '', digits = '', after = ''] = /^(.*?)(\d{1,9})(\D*)$/s.exec(name) ?? [];
  if (digits !== '' && !/[[\]]/.test(name)) return {...{name, before, after, kind: 'number'}, digits: digits.length, value: Number(digits)};
  const [, stem = '', letter = ''] = /^(.*[-.])([a-z])$/s.exec(name) ?? [];
  if (letter !== '') return {name, before: stem, after: '', kind: 'letter', digits: 0, value: letter.charCodeAt(0)};
  return {name, before: name, after: '', kind: 'name', digits: 0, value: 0};
}

/** If any number has leading zeros, only numbers of the same length form a range. */
function sameLength(members: readonly Member[]): readonly (readonly Member[])[] {
  const isPadded = members.some(({digits, value}) => digits > String(value).length);
  return isPadded ? [...Map.groupBy(members, ({digits}) => digits).values()] : [members];
}

function rangeOf(members: readonly Member[]): NodeRange {
  const [first] = members;
  if (first === undefined || members.length === 1) return {text: first?.name ?? '', size: members.length};
  const runs: {first: Member; last: Member}[] = [];
  for (const member of members.toSorted((a, b) => a.value - b.value)) {
    const run = runs.at(-1);
    if (run !== undefined && member.value === run.last.value + 1) run.last = member;
    else runs.push({first: member, last: member});
  }
  const parts = runs.map(run => (run.first === run.last ? label(run.first) : `${label(run.first)}-${label(run.last)}`));
  return {text: `${first.before}[${parts.join(',')}]${first.after}`, size: members.length};
}

function label({kind, value, digits}: Member): string {
  return kind === 'letter' ? String.fromCharCode(value) : String(value).padStart(digits, '0');
}
