import {endpointSet} from '../expect/cluster/endpoint-sets.ts';
import {type Endpoint, sliceService} from '../model/endpoint.ts';
import type {StateHistory} from '../model/state-history.ts';
import {namespacedName} from '../model/text.ts';
import type {NodeSurvey, SurveyedPort} from './node-survey.ts';
import {uniqueBy} from '../model/lists.ts';

/**
 * What a node is to give to whom, with the endpoints that a Service port had until shortly before: kube-proxy may still send them new
 * connections, and these are not stale. They count as terminating. `since`: how long back, in milliseconds since 1970.
 */
export function withLeavingEndpoints(survey: NodeSurvey, {changes}: StateHistory, since: number): NodeSurvey {
  const former = changes.flatMap(({kind, at, before}) => (kind === 'EndpointSlice' && at >= since && before !== null ? [before] : []));
  const minor = survey.kubeProxyMinor;
  if (former.length === 0 || minor === undefined) return survey;
  const leaving = ({port, set}: SurveyedPort): readonly Endpoint[] => {
    const own = former.filter(slice => sliceService(slice) === namespacedName({namespace: port.namespace, name: port.service}));
    const usable = own.flatMap(slice => endpointSet(port, [slice], {text: `1.${minor}`, minor, patch: null}).endpoints).filter(isUsable);
    const still = new Set(set.endpoints.filter(isUsable).map(({hostPort}) => hostPort));
    return uniqueBy(usable, ({hostPort}) => hostPort).filter(({hostPort}) => !still.has(hostPort));
  };
  return {
    ...survey,
    ports: survey.ports.map(surveyed => {
      const gone = leaving(surveyed).map(endpoint => ({...endpoint, ready: false, serving: true, terminating: true}));
      if (gone.length === 0) return surveyed;
      const names = new Set(gone.map(({hostPort}) => hostPort));
      const endpoints = [...surveyed.set.endpoints.filter(({hostPort}) => !names.has(hostPort)), ...gone];
      return {...surveyed, set: {...surveyed.set, endpoints}};
    }),
  };
}

function isUsable({ready, serving, terminating}: Endpoint): boolean {
  return ready || (terminating && serving);
}
