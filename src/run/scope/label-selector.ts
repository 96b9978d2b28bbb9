import {Errors} from '@oclif/core';

/** One requirement of a label selector. */
interface LabelRequirement {
  readonly key: string;
  readonly operator: 'in' | 'notin' | 'exists' | 'absent';
  readonly values: readonly string[];
}

/** Reads a label selector as kubectl does: `a=b`, `a==b`, `a!=b`, `a`, `!a`, `a in (b,c)`, `a notin (b,c)`. Throws a CLIError (exit 2). */
export function parseSelector(text: string): readonly LabelRequirement[] {
  return text.split(/,(?![^(]*\))/).map(part => parseRequirement(part.trim(), text));
}

function parseRequirement(part: string, whole: string): LabelRequirement {
  const set = /^([\w./-]+)\s+(in|notin)\s+\(([^)]*)\)$/.exec(part);
  if (set !== null)
    return {key: set[1] ?? '', operator: set[2] === 'in' ? 'in' : 'notin', values: (set[3] ?? '').split(',').map(value => value.trim())};
  const equality = /^([\w./-]+)\s*(==|=|!=)\s*([\w.-]*)$/.exec(part);
  if (equality !== null) return {key: equality[1] ?? '', operator: equality[2] === '!=' ? 'notin' : 'in', values: [equality[3] ?? '']};
  const presence = /^(!?)\s*([\w./-]+)$/.exec(part);
  if (presence !== null) return {key: presence[2] ?? '', operator: presence[1] === '!' ? 'absent' : 'exists', values: []};
  throw new Errors.CLIError(`"${whole}" is not a label selector: cannot parse "${part}"`, {exit: 2});
}

export function matchesSelector(labels: Readonly<Record<string, string>>, requirements: readonly LabelRequirement[]): boolean {
  return requirements.every(({key, operator, values}) => {
    const value = labels[key];
    if (operator === 'exists') return value !== undefined;
    if (operator === 'absent') return value === undefined;
    return operator === 'in' ? value !== undefined && values.includes(value) : value === undefined || !values.includes(value);
  });
}
