import type {NodeInput} from '../analyze/proxy-mode.ts';
import type {Symptom} from '../analyze/symptoms/symptom.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import type {ServicePort} from '../model/service-port.ts';
import type {DiagnoseOptions} from './diagnosis-options.ts';

/**
 * The Service ports of a node that are traced. The number of faulty Services is limited to what a report can show: traces take memory on
 * every node.
 */
export function tracedPorts(services: readonly ServiceObject[], trace: NonNullable<DiagnoseOptions['trace']>): NodeInput['traces'] {
  if (trace === false) return () => false;
  const asked = new Set(services.map(({metadata}) => `${metadata.namespace ?? 'default'}/${metadata.name}`));
  const isAsked = ({namespace, service}: ServicePort): boolean => asked.has(`${namespace}/${service}`);
  if (trace !== 'faulty') return isAsked;
  const faulty = oncePerFamily(found => new Set(faultyServices(found).slice(0, maxServices)));
  return (port, found) => isAsked(port) && faulty(found).has(`${port.namespace}/${port.service}`);
}

const maxServices = 24;

function faultyServices(found: readonly Symptom[]): readonly string[] {
  const loud = found.filter(({severity}) => severity !== 'info');
  return [...new Set(loud.flatMap(({port}) => (port === null ? [] : [`${port.namespace}/${port.service}`])))];
}

/** Every port of a family uses the same list. */
function oncePerFamily<T>(make: (found: readonly Symptom[]) => T): (found: readonly Symptom[]) => T {
  let last: {readonly found: readonly Symptom[]; readonly made: T} | null = null;
  return found => {
    if (last?.found !== found) last = {found, made: make(found)};
    return last.made;
  };
}
