import type {Report} from '../../model/report.ts';
import {fitResults} from './fit-results.ts';
import type {PolicyResult} from './policy-result.ts';
import {policyResults} from './policy-results.ts';
import type {Renderer, RenderOptions} from '../renderer.ts';
import {toYaml} from '../yaml.ts';

/** Objects of OpenReports, as YAML for `kubectl apply --server-side -f -`: a Report for each namespace, and a ClusterReport. */
export const openreports: Renderer = (report, options) =>
  manifest(report, options, {apiVersion: 'openreports.io/v1alpha1', kind: 'Report', hasSource: true});

/** The same as objects of the older API, which most dashboards read. */
export const policyreport: Renderer = (report, options) =>
  manifest(report, options, {apiVersion: 'wgpolicyk8s.io/v1alpha2', kind: 'PolicyReport', hasSource: false});

interface Dialect {
  readonly apiVersion: string;
  /** The kind in a namespace; the cluster-scoped kind has the prefix `Cluster`. */
  readonly kind: string;
  /** Besides results, the object names its source. */
  readonly hasSource: boolean;
}

/** The cluster-scoped object first, then those of namespaces sorted by name. They exist even if there are no findings. */
function manifest(report: Report, {verbose, unixTime}: RenderOptions, dialect: Dialect): string {
  const {cluster, namespaces} = policyResults(report, verbose);
  const sorted = [...namespaces].sort(([a], [b]) => (a < b ? -1 : 1));
  return [{results: cluster}, ...sorted.map(([namespace, results]) => ({namespace, results}))]
    .map(content => toYaml(objectOf(content, dialect, unixTime)))
    .join('\n---\n');
}

interface Content {
  readonly namespace?: string;
  readonly results: readonly PolicyResult[];
}

/** Its name is always the same, so that the next run replaces it. */
function objectOf({namespace, results: all}: Content, {apiVersion, kind, hasSource}: Dialect, unixTime: number | undefined): object {
  const {results, summary} = fitResults(all);
  const timestamp = unixTime === undefined ? {} : {timestamp: {seconds: Math.floor(unixTime), nanos: 0}};
  return {
    ...{apiVersion, kind: namespace === undefined ? `Cluster${kind}` : kind},
    metadata: {
      name: 'svc-trace',
      ...(namespace === undefined ? {} : {namespace}),
      labels: {'app.kubernetes.io/managed-by': 'svc-trace'},
    },
    ...(hasSource ? {source: 'svc-trace'} : {}),
    ...(namespace === undefined ? {} : {scope: {apiVersion: 'v1', kind: 'Namespace', name: namespace}}),
    summary,
    results: results.map(result => ({...result, ...timestamp})),
  };
}
