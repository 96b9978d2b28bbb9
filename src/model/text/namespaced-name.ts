/** `namespace/name`, which identifies an object among those of its kind. Namespaced objects always have a namespace here. */
export function namespacedName({namespace = 'default', name}: {readonly namespace?: string | undefined; readonly name: string}): string {
  return `${namespace}/${name}`;
}
