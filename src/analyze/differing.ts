import type {ServicePort} from '../model/service-port.ts';

/** What of a Service differs. */
export interface ServiceDifferences {
  /** How many objects: rules, elements, servers. */
  readonly count: number;
  /** In which parts of the dumps. Each part is of one moment, and kube-proxy may have written between two of them. */
  readonly parts: ReadonlySet<string>;
}

/** What of each Service differs: by `IPv4 shop/web`. */
export class Differing {
  readonly services = new Map<string, ServiceDifferences>();

  /** `parts` has the part of each object. */
  add({family, namespace, service}: ServicePort, parts: readonly string[]): void {
    const key = differingKey(family, `${namespace}/${service}`);
    const known = this.services.get(key);
    this.services.set(key, {count: (known?.count ?? 0) + parts.length, parts: new Set([...(known?.parts ?? []), ...parts])});
  }
}

export function differingKey(family: string, service: string): string {
  return `${family} ${service}`;
}
