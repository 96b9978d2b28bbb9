/** One requirement of a label selector. */
export interface LabelRequirement {
  readonly key: string;
  readonly operator: 'in' | 'notin' | 'exists' | 'absent';
  readonly values: readonly string[];
}

/** The parts of a label selector as kubectl takes it, each with what it requires; null for a form that is not known. */
export function selectorParts(text: string): readonly {readonly part: string; readonly requirement: LabelRequirement | null}[] {
  return text.split(/,(?![^(]*\))/).map(part => ({part: part.trim(), requirement: requirementOf(part.trim())}));
}

/** `a=b`, `a==b`, `a!=b`, `a`, `!a`, `a in (b,c)` or `a notin (b,c)`. */
function requirementOf(part: string): LabelRequirement | null {
  const [, listed = '', set, list = ''] = /^([\w./-]+)\s+(in|notin)\s*\(([^)]*)\)$/.exec(part) ?? [];
  if (set !== undefined) return {key: listed, operator: set === 'in' ? 'in' : 'notin', values: list.split(',').map(value => value.trim())};
  const [, key = '', sign, value = ''] = /^([\w./-]+)\s*(==|=|!=)\s*([\w.-]*)$/.exec(part) ?? [];
  if (sign !== undefined) return {key, operator: sign === '!=' ? 'notin' : 'in', values: [value]};
  const [, not, name] = /^(!?)\s*([\w./-]+)$/.exec(part) ?? [];
  return name === undefined ? null : {key: name, operator: not === '!' ? 'absent' : 'exists', values: []};
}

export function matchesRequirement(labels: Readonly<Record<string, string>>, {key, operator, values}: LabelRequirement): boolean {
  const value = labels[key];
  if (operator === 'exists') return value !== undefined;
  if (operator === 'absent') return value === undefined;
  return operator === 'in' ? value !== undefined && values.includes(value) : value === undefined || !values.includes(value);
}
