import type {ServiceObject} from '../../model/api-objects.ts';
import type {Fields} from '../attempt.ts';
import {someOf} from '../../model/text.ts';
import {type DeclaredPort, fromObjects, labelledBy, type ListedService, pairsOf} from './listed-objects.ts';

/** Services whose target port no container of the pods that they select declares, where the text has both as YAML or JSON. */
export function undeclaredPorts(lines: readonly string[]): readonly string[] {
  if (!lines.some(line => /containerPort|image:/.test(line))) return [];
  const makers = fromObjects(lines, labelledBy).filter(
    ({ports, images}) => ports.length > 0 || images.some(image => usualPort(image) !== undefined),
  );
  return fromObjects(lines, object => {
    const {kind, metadata, spec} = object as Fields & ServiceObject;
    const wanted = pairsOf(spec?.selector);
    if (kind !== 'Service' || wanted.length === 0) return [];
    const [maker, ...others] = makers.filter(
      ({namespace, labels}) => namespace === (metadata?.namespace ?? '') && wanted.every(label => labels.includes(label)),
    );
    if (maker === undefined || others.length > 0) return [];
    const usual = maker.images.flatMap(image => usualPort(image) ?? []);
    const name = [metadata?.namespace ?? [], metadata?.name ?? ''].flat().join('/');
    const ports = maker.ports.length > 0 ? maker.ports : usual.map(containerPort => ({containerPort}));
    const declared = someOf(
      ports.map(({name: own, containerPort}: DeclaredPort) => `${containerPort}${own === undefined ? '' : ` (${own})`}`),
    );
    const verb = maker.ports.length > 0 ? 'declares' : 'declares none and has an image that listens by default on';
    return (spec?.ports ?? []).flatMap(({port, targetPort = port}) => {
      const isNumber = /^\d+$/.test(String(targetPort));
      if (ports.some((each: DeclaredPort) => (isNumber ? each.containerPort === Number(targetPort) : each.name === targetPort))) return [];
      return isNumber
        ? `${name} sends to port ${targetPort} (targetPort), and ${maker.what} ${verb} ${declared}: unless a program listens on ${targetPort} all the same, connections are refused`
        : `${name} sends to the port "${targetPort}" (targetPort), and ${maker.what} ${verb} ${declared}: without a port of that name the pods are no endpoints`;
    });
  });
}

/** Where programs of well-known images listen unless they are told otherwise. */
function usualPort(image: string): number | undefined {
  const name = /([\w-]+)(?:[:@]\S*)?$/.exec(image)?.[1] ?? '';
  return {nginx: 80, httpd: 80, redis: 6379, mysql: 3306, mariadb: 3306, postgres: 5432, mongo: 27_017, tomcat: 8080}[name];
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

/** As today, and before 1.19. */
interface IngressBackend {
  readonly service?: {readonly name?: string; readonly port?: {readonly number?: number}};
  readonly serviceName?: string;
  readonly servicePort?: number;
}
