import {chainName, servicePortHash} from '../../expect/iptables/chain-names.ts';
import {namespacedName} from '../../model/text.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {type WantedService, parseServiceName, type SelectionInput} from './select-services.ts';
import {closest, wrongUse} from '../wrong-use.ts';

type RulesSelection = Omit<SelectionInput, 'selector'>;

/** The requested Services among those in the rules. Throws a CLIError (exit 2) for a name that is not in the rules. */
export function selectInRules(traces: readonly PortTrace[], selection: RulesSelection): readonly PortTrace[] {
  const {names, namespace, allNamespaces} = selection;
  if (names.length === 0) return traces.filter(({service}) => namespace === undefined || allNamespaces || service.namespace === namespace);
  return names.flatMap(text => {
    const found = tracesNamed(text, traces, selection);
    if (found.length === 0) throw notInRules(text, traces);
    return found;
  });
}

function tracesNamed(text: string, traces: readonly PortTrace[], {namespace, allNamespaces}: RulesSelection): readonly PortTrace[] {
  const direct = traces.filter(trace => isPlace(trace, text));
  if (direct.length > 0) return direct;
  const wanted = parseServiceName(text, {names: [], namespace, allNamespaces, selector: undefined});
  const named = traces.filter(
    ({service}) => service.name === wanted.name && (wanted.namespace === undefined || service.namespace === wanted.namespace),
  );
  return named.length > 0 ? named : unnamedTraces(wanted, traces);
}

/** An address of the Service, with or without its port, or one of its chains. */
function isPlace({service, entries}: PortTrace, text: string): boolean {
  if (service.namespace === 'unnamed' && service.name === text) return true;
  return entries.some(
    ({entry, steps}) => entry.address === text || `${entry.address}:${entry.port}` === text || steps.some(({to}) => to === text),
  );
}

/** A chain name is a hash of the Service port: if no comment names the Service, the requested name may still match. */
function unnamedTraces({namespace = 'default', name}: WantedService, traces: readonly PortTrace[]): readonly PortTrace[] {
  return traces.flatMap(trace => {
    if (trace.service.namespace !== 'unnamed') return [];
    const portName = usualPortNames.find(port => {
      const servicePortName = `${namespace}/${name}${port === '' ? '' : `:${port}`}`;
      const hashes = [servicePortName, `${namespace}/${name}:${port}`].map(text => servicePortHash(text, trace.port.protocol));
      return hashes.some(hash => ['SVC', 'SVL', 'XLB'].some(role => chainName(role as 'SVC', hash) === trace.service.name));
    });
    return portName === undefined ? [] : [{...trace, service: {namespace, name}, port: {...trace.port, name: portName}}];
  });
}

const usualPortNames = ['', ...'http https web tcp api grpc metrics dns dns-tcp http-web port main server'.split(' ')];

function notInRules(text: string, traces: readonly PortTrace[]): Error {
  const all = [...new Set(traces.map(({service}) => namespacedName(service)))];
  const near = closest(text.includes('/') ? text : `default/${text}`, all);
  const hint =
    near.length > 0
      ? `; did you mean ${near.join(' or ')}?`
      : all.length === 0
        ? ', which show no Service'
        : `; they serve ${all.slice(0, 6).join(', ')}${all.length > 6 ? `, and ${all.length - 6} more: svc-trace trace --from FILE lists them` : ''}`;
  return wrongUse(`Service "${text}" is not in these rules${hint}`);
}
