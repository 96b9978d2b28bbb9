import type {Fields} from '../attempt.ts';
import {someOf} from '../../model/text.ts';
import {objectsIn} from './listed-objects.ts';

interface Declared {
  readonly kind?: string;
  readonly metadata?: {readonly name?: string; readonly namespace?: string; readonly labels?: Readonly<Record<string, string>>};
  readonly spec?: {
    readonly selector?: Readonly<Record<string, unknown>>;
    readonly ports?: readonly {readonly port?: number; readonly targetPort?: number | string}[];
    readonly template?: Pick<Declared, 'metadata' | 'spec'>;
    readonly containers?: readonly {readonly ports?: readonly {readonly name?: string; readonly containerPort?: number}[]}[];
  };
}

/** Services whose target port no container of the pods that they select declares, where the text has both as YAML or JSON. */
export function undeclaredPorts(lines: readonly string[]): readonly string[] {
  if (!lines.some(line => line.includes('containerPort'))) return [];
  const objects: readonly Declared[] = objectsIn(lines).map((object: Fields) => object as Declared);
  const makers = objects.flatMap(object => {
    const pod = object.kind === 'Pod' ? object : object.spec?.template;
    const ports = (pod?.spec?.containers ?? []).flatMap(container => container.ports ?? []);
    return pod === undefined || ports.length === 0
      ? []
      : [
          {
            what: `${object.kind} ${object.metadata?.name ?? ''}`,
            namespace: object.metadata?.namespace ?? '',
            labels: pod.metadata?.labels ?? {},
            ports,
          },
        ];
  });
  return objects.flatMap(({kind, metadata, spec}) => {
    const wanted = Object.entries(spec?.selector ?? {});
    if (kind !== 'Service' || wanted.length === 0) return [];
    const [maker, ...others] = makers.filter(
      ({namespace, labels}) => namespace === (metadata?.namespace ?? '') && wanted.every(([key, value]) => labels[key] === value),
    );
    if (maker === undefined || others.length > 0) return [];
    const name = [metadata?.namespace ?? [], metadata?.name ?? ''].flat().join('/');
    const declared = someOf(maker.ports.map(({name: own, containerPort}) => `${containerPort}${own === undefined ? '' : ` (${own})`}`));
    return (spec?.ports ?? []).flatMap(({port, targetPort = port}) => {
      const isNumber = /^\d+$/.test(String(targetPort));
      if (maker.ports.some(each => (isNumber ? each.containerPort === Number(targetPort) : each.name === targetPort))) return [];
      return isNumber
        ? `${name} sends to port ${targetPort} (targetPort), and ${maker.what} declares ${declared}: unless a program listens on ${targetPort} all the same, connections are refused`
        : `${name} sends to the port "${targetPort}" (targetPort), and ${maker.what} declares ${declared}: without a port of that name the pods are no endpoints`;
    });
  });
}
