/** `namespace/name`, by which objects of one kind are told apart. Every object that can have a namespace has one. */
export function namespacedName({namespace = 'default', name}: {readonly namespace?: string | undefined; readonly name: string}): string {
  return `${namespace}/${name}`;
}
