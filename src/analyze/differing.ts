import type {ServicePort} from '../model/service-port.ts';

/** The differences of one Service. */
export interface ServiceDifferences {
  /** The number of objects that differ: rules, elements, servers. */
  readonly count: number;
  /** The parts of the dumps with a difference. Each part is of one moment, and kube-proxy may have written between two of them. */
  readonly parts: ReadonlySet<string>;
}

/** The differences of each Service, by `IPv4 shop/web`. */
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
