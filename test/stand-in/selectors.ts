/** Whether an object is one of those that `labelSelector` and `fieldSelector` ask for. */
export function isSelected(object: object, query: URLSearchParams): boolean {
  const labels = (object as {metadata?: {labels?: Record<string, string>}}).metadata?.labels ?? {};
  return (
    terms(query.get('labelSelector')).every(term => holds(term, labels)) &&
    terms(query.get('fieldSelector')).every(term => holds(term, {[fieldOf(term)]: String(valueAt(object, fieldOf(term)) ?? '')}))
  );
}

function terms(selector: string | null): readonly string[] {
  return (selector ?? '')
    .split(/,(?![^(]*\))/)
    .map(term => term.trim())
    .filter(term => term !== '');
}

function holds(term: string, values: Readonly<Record<string, string>>): boolean {
  const inSet = /^(\S+) (in|notin) \(([^)]*)\)$/.exec(term);
  if (inSet !== null) {
    const [, key = '', operator, list = ''] = inSet;
    const isIn = list.split(',').some(value => value.trim() === values[key]);
    return operator === 'in' ? isIn : !isIn;
  }
  const [, key = '', operator = '', value = ''] = /^(!?[^=!]+)(==|=|!=)?(.*)$/.exec(term) ?? [];
  if (operator === '') return key.startsWith('!') ? !(key.slice(1) in values) : key in values;
  return operator === '!=' ? values[key] !== value : values[key] === value;
}

function fieldOf(term: string): string {
  return term.split(/[=!]/, 1)[0] ?? '';
}

function valueAt(object: object, path: string): unknown {
  return path.split('.').reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], object);
}
