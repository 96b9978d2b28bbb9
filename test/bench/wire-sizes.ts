import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {gzipSync} from 'node:zlib';
import {writeEndpointSlices, writeServices} from './api-objects.ts';
import {buildCluster} from './build-cluster.ts';
import type {ClusterSize} from './cluster-size.ts';
import {dumpLines} from './dump.ts';
import type {Cluster} from './model.ts';
import {protobufSize} from './protobuf-size.ts';

/** What goes over the wire, in bytes: means over a made-up cluster. The same size of cluster gives the same figures. */
export interface WireSizes {
  /** A Service, as JSON of the API server. */
  readonly service: number;
  /** An EndpointSlice without its endpoints. */
  readonly slice: number;
  readonly endpoint: number;
  /** A page of 500 slices with gzip, as a part of what it is without. */
  readonly gzip: number;
  /** A slice in protobuf, as a part of what it is in JSON. */
  readonly protobuf: number;
  /** What `iptables-save` and `ip6tables-save` print for each endpoint, the rules of its Service included. */
  readonly dump: number;
  /** Rules of both families for each endpoint. */
  readonly rules: number;
}

type Json = Record<string, unknown> & {readonly metadata: Record<string, unknown>};

export function wireSizes(size: ClusterSize): WireSizes {
  const cluster = buildCluster(size);
  const services = items(cluster, writeServices).map(object => asServed(object, serviceFields));
  const slices = items(cluster, writeEndpointSlices).map(object => asServed(object, sliceFields));
  const full = slices.filter(({endpoints}) => Array.isArray(endpoints));
  const endpoints = full.flatMap(slice => slice['endpoints'] as readonly object[]);
  const bare = full.map(slice => ({...slice, endpoints: []}));
  const [node] = cluster.nodes;
  if (node === undefined) throw new Error('there is no node');
  const lines = [...dumpLines(cluster, node, 'IPv4'), ...dumpLines(cluster, node, 'IPv6')];
  const page = JSON.stringify({kind: 'EndpointSliceList', items: slices.slice(0, 500)});
  return {
    service: mean(services.map(jsonSize)),
    slice: mean(bare.map(jsonSize)),
    // With the comma that stands between two.
    endpoint: mean(endpoints.map(jsonSize)) + 1,
    gzip: gzipSync(page, {level: 1}).length / Buffer.byteLength(page),
    protobuf: total(full.map(slice => protobufSize(slice))) / total(full.map(jsonSize)),
    dump: total(lines.map(line => Buffer.byteLength(line) + 1)) / endpoints.length,
    rules: lines.filter(line => line.startsWith('-A')).length / endpoints.length,
  };
}

function items(cluster: Cluster, write: (path: string, cluster: Cluster) => void): readonly Json[] {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-sizes-'));
  try {
    const file = join(folder, 'list.json');
    write(file, cluster);
    return (JSON.parse(readFileSync(file, 'utf8')) as {readonly items: readonly Json[]}).items;
  } finally {
    rmSync(folder, {recursive: true});
  }
}

/** With what the API server keeps about who wrote it, and without what stands in the list. */
function asServed({apiVersion: _, kind: __, ...object}: Json, fieldsV1: object): Json {
  const managedFields = [
    {
      manager: 'kube-controller-manager',
      operation: 'Update',
      apiVersion: 'v1',
      time: '2026-01-01T00:00:00Z',
      fieldsType: 'FieldsV1',
      fieldsV1,
    },
  ];
  return {...object, metadata: {...object.metadata, managedFields}} as Json;
}

/** As a real API server has them of a slice of the controller's, and of a Service that kubectl applied. */
const sliceFields = {
  'f:addressType': {},
  'f:endpoints': {},
  'f:metadata': {
    'f:annotations': {'.': {}, 'f:endpoints.kubernetes.io/last-change-trigger-time': {}},
    'f:generateName': {},
    'f:labels': {'.': {}, 'f:endpointslice.kubernetes.io/managed-by': {}, 'f:kubernetes.io/service-name': {}},
    'f:ownerReferences': {'.': {}, 'k:{"uid":"bc26ef11-89eb-42fe-8b6a-1f9ff5d0f8d7"}': {}},
  },
  'f:ports': {},
};
const serviceFields = {
  'f:metadata': {'f:annotations': {'.': {}, 'f:kubectl.kubernetes.io/last-applied-configuration': {}}, 'f:labels': {'.': {}, 'f:app': {}}},
  'f:spec': {
    'f:internalTrafficPolicy': {},
    'f:ports': {'.': {}, 'k:{"port":80,"protocol":"TCP"}': {'.': {}, 'f:name': {}, 'f:port': {}, 'f:protocol': {}, 'f:targetPort': {}}},
    'f:selector': {},
    'f:sessionAffinity': {},
    'f:type': {},
  },
};

function jsonSize(object: object): number {
  return Buffer.byteLength(JSON.stringify(object));
}

function total(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

function mean(numbers: readonly number[]): number {
  return total(numbers) / numbers.length;
}
