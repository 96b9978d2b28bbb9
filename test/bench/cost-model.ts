import type {WireSizes} from './wire-sizes.ts';

/** A cluster, as far as costs go. */
export interface CostedCluster {
  readonly nodes: number;
  readonly services: number;
  /** Of each Service. */
  readonly endpoints: number;
}

/** Bytes, unless it says otherwise. Each is a formula of docs/dev/costs.md. */
export interface Costs {
  /** All endpoints. */
  readonly endpoints: number;
  readonly slices: number;
  /** All Services and slices in JSON, and with gzip. */
  readonly objects: number;
  readonly objectsCompressed: number;
  /** What one node prints. */
  readonly dump: number;
  /** Rules of one node. */
  readonly rules: number;
  /** What all nodes print: through the API server by exec, past it by ssh, nowhere with agents. */
  readonly dumps: number;
  /** All agents read all objects once. */
  readonly start: number;
  /** One endpoint changes: a slice for each agent; and for each kube-proxy. */
  readonly change: number;
  readonly changeOfKubeProxies: number;
  /** Bookmarks of both watches of all agents, a second. */
  readonly bookmarks: number;
  /** What `check --agents` collects from the agents. */
  readonly results: number;
  /** One scrape of all agents by Prometheus, and its samples. */
  readonly scrape: number;
  readonly samples: number;
}

export function costs({nodes, services, endpoints: each}: CostedCluster, sizes: WireSizes): Costs {
  const endpoints = services * each;
  const slices = services * Math.ceil(each / sliceSize);
  const objects = services * sizes.service + slices * sizes.slice + endpoints * sizes.endpoint;
  const dump = endpoints * sizes.dump;
  const slice = sizes.slice + (endpoints / slices) * sizes.endpoint;
  return {
    ...{endpoints, slices, objects, objectsCompressed: objects * sizes.gzip},
    ...{dump, rules: endpoints * sizes.rules, dumps: nodes * dump, start: nodes * objects * sizes.gzip},
    ...{change: nodes * slice, changeOfKubeProxies: nodes * slice * sizes.protobuf, bookmarks: (nodes * 2 * bookmark) / 60},
    ...{results: nodes * result, scrape: nodes * scrape, samples: nodes * samplesOfAgent},
  };
}

/** As many endpoints as the controller puts into one. */
const sliceSize = 100;
/** About one a minute for each watch. */
const bookmark = 250;
/** What an agent of a healthy node answers, with gzip: `/result` and its headers, and `/metrics`. */
const [result, scrape, samplesOfAgent] = [900, 1200, 26];
