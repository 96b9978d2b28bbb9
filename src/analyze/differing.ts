import type {ServicePort} from '../model/service-port.ts';

/** How many objects of each Service differ: `IPv4 shop/web`. */
export class Differing {
  readonly counts = new Map<string, number>();

  add({family, namespace, service}: ServicePort, count: number): void {
    const key = differingKey(family, `${namespace}/${service}`);
    this.counts.set(key, (this.counts.get(key) ?? 0) + count);
  }
}

export function differingKey(family: string, service: string): string {
  return `${family} ${service}`;
}
