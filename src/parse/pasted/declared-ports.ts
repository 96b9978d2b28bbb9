import type {ServiceObject} from '../../model/api-objects.ts';
import type {Fields} from '../attempt.ts';
import {someOf} from '../../model/text.ts';
import {fromObjects, labelledBy, type ListedService, pairsOf} from './listed-objects.ts';

/** Services whose target port no container of the pods that they select declares, where the text has both as YAML or JSON. */
export function undeclaredPorts(lines: readonly string[]): readonly string[] {
  if (!lines.some(line => line.includes('containerPort'))) return [];
  const makers = fromObjects(lines, labelledBy).filter(({ports}) => ports.length > 0);
  return fromObjects(lines, object => {
    const {kind, metadata, spec} = object as Fields & ServiceObject;
    const wanted = pairsOf(spec?.selector);
    if (kind !== 'Service' || wanted.length === 0) return [];
    const [maker, ...others] = makers.filter(
      ({namespace, labels}) => namespace === (metadata?.namespace ?? '') && wanted.every(label => labels.includes(label)),
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

/** Ports that an Ingress names of a Service of the text, which has others. */
export function ingressPorts(lines: readonly string[], services: readonly ListedService[]): readonly string[] {
  if (services.length === 0 || !lines.some(line => line.includes('Ingress'))) return [];
  return fromObjects(lines, ({kind, metadata, spec}) => {
    if (kind !== 'Ingress') return [];
    const {name = '', namespace} = (metadata ?? {}) as {readonly name?: string; readonly namespace?: string};
    const {rules = []} = (spec ?? {}) as IngressSpec;
    return rules
      .flatMap(({http}) => http?.paths ?? [])
      .flatMap(({backend = {}}) => {
        const serviceName = backend.serviceName ?? backend.service?.name ?? '';
        const servicePort = backend.servicePort ?? backend.service?.port?.number;
        const own = services.find(each => each.name === serviceName || each.name === `${namespace ?? ''}/${serviceName}`);
        return own === undefined || typeof servicePort !== 'number' || own.ports.some(({port}) => port === servicePort)
          ? []
          : `Ingress ${name} sends to port ${servicePort} of ${own.name}, which has ${someOf(own.ports.map(({port}) => String(port)))}: it must name a port of the Service, and not that of the pods (targetPort)`;
      });
  });
}

interface IngressSpec {
  readonly rules?: readonly {readonly http?: {readonly paths?: readonly {readonly backend?: IngressBackend}[]}}[];
}

interface IngressBackend {
  readonly service?: {readonly name?: string; readonly port?: {readonly number?: number}};
  readonly serviceName?: string;
  readonly servicePort?: number;
}
