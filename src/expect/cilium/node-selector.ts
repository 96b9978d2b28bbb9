type Labels = Readonly<Record<string, string>>;

/** Whether labels match a selector as kubectl writes it (`pool in (blue, green),!old`); null for a form that is not known. */
export function matchesSelector(selector: string, labels: Labels): boolean | null {
  const requirements = selector.split(/,(?![^(]*\))/).map(text => text.trim());
  const results = requirements.filter(text => text !== '').map(text => matchesRequirement(text, labels));
  return results.includes(false) ? false : results.includes(null) ? null : true;
}

function matchesRequirement(text: string, labels: Labels): boolean | null {
  const [, key = '', operator, list = ''] = /^(\S+)\s+(in|notin)\s*\(([^)]*)\)$/.exec(text) ?? [];
  if (operator !== undefined) {
    const isListed = list
      .split(',')
      .map(value => value.trim())
      .includes(labels[key] ?? '');
    // A node without the label is in no list.
    return operator === 'in' ? labels[key] !== undefined && isListed : labels[key] === undefined || !isListed;
  }
  const [, name = '', sign, value = ''] = /^([^\s=!]+)\s*(==?|!=)\s*(\S*)$/.exec(text) ?? [];
  if (sign !== undefined) return (labels[name] === value) === (sign !== '!=');
  const [, not, exists] = /^(!?)\s*([^\s=!<>()]+)$/.exec(text) ?? [];
  return exists === undefined ? null : (labels[exists] !== undefined) === (not === '');
}
