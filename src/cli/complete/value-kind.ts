/** Values that can be looked up, or left to the shell. */
export type ValueKind = 'services' | 'namespaces' | 'nodes' | 'contexts' | 'clusters' | 'users' | 'codes' | 'files';

const byName: Readonly<Record<string, ValueKind>> = {
  service: 'services',
  destination: 'services',
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

/** The kind of values that a flag or an argument takes, by its name and by what its help shows; null where they cannot be known. */
export function valueKind(spec: {readonly name: string; readonly helpValue?: string | readonly string[] | undefined}): ValueKind | null {
  const {name, helpValue = ''} = spec;
  const shown = (typeof helpValue === 'string' ? helpValue : (helpValue[0] ?? '')).split(/[|.]/, 1)[0] ?? '';
  return byName[name] ?? byHelpValue[shown] ?? null;
}
