/** Values that can be looked up, or are left to the shell. */
export type ValueKind = 'services' | 'pods' | 'namespaces' | 'nodes' | 'contexts' | 'clusters' | 'users' | 'codes' | 'files';

const byName: Readonly<Record<string, ValueKind>> = {
  service: 'services',
  destination: 'services',
  source: 'pods',
  code: 'codes',
  context: 'contexts',
  cluster: 'clusters',
  user: 'users',
  before: 'files',
  after: 'files',
};

const byHelpValue: Readonly<Record<string, ValueKind>> = {
  NAMESPACE: 'namespaces',
  NODE: 'nodes',
  CODES: 'codes',
  FILE: 'files',
  BUNDLE: 'files',
  DIR: 'files',
};

/** The kind of values of a flag or argument, by its name and its help; null if they cannot be looked up. */
export function valueKind(spec: {readonly name: string; readonly helpValue?: string | readonly string[] | undefined}): ValueKind | null {
  const {name, helpValue = ''} = spec;
  const shown = (typeof helpValue === 'string' ? helpValue : (helpValue[0] ?? '')).split(/[|.]/, 1)[0] ?? '';
  return byName[name] ?? byHelpValue[shown] ?? null;
}
