import type {Observation, ServiceName} from '../../model/finding.ts';
import {commandLine} from '../../model/text/command-line.ts';

type Command = Pick<Observation, 'command'>;

/** Lines that are to be run one after the other; nothing if one of them cannot be written. */
export function run(...lines: readonly (string | null)[]): Command {
  return lines.length === 0 || lines.includes(null) ? {} : {command: lines.join('\n')};
}

/** Opens an editor. */
export function editService({namespace, name}: ServiceName): Command {
  return run(commandLine`kubectl -n ${namespace} edit ${`service/${name}`}`);
}

/** `patch` is merged into the Service. */
export function patchService({namespace, name}: ServiceName, patch: object): Command {
  return run(commandLine`kubectl -n ${namespace} patch ${`service/${name}`} -p ${JSON.stringify(patch)}`);
}

export function showService({namespace, name}: ServiceName): Command {
  return run(commandLine`kubectl -n ${namespace} get ${`service/${name}`} -o wide --show-labels`);
}

/** Shows the EndpointSlices of a Service; `yaml` with every field of their endpoints. */
export function showSlices({namespace, name}: ServiceName, as: 'labels' | 'yaml'): Command {
  const slices = commandLine`kubectl -n ${namespace} get endpointslices -l ${`kubernetes.io/service-name=${name}`}`;
  return run(slices === null ? null : `${slices} ${as === 'yaml' ? '-o yaml' : '--show-labels'}`);
}

/** Shows the pods that these labels select, with their readiness. */
export function showPods(namespace: string, labels: Readonly<Record<string, string>>): Command {
  const selector = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
  return run(commandLine`kubectl -n ${namespace} get pods -l ${selector.join(',')} -o wide`);
}
