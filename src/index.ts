export {readBundle, UnreadableBundle} from './collect/bundle/read-bundle.ts';
export {type DiagnoseOptions, diagnose} from './diagnose.ts';
export type {Finding, Observation, ServiceName, Severity} from './model/finding.ts';
export type {NodeReport, Report, Summary} from './model/report.ts';
export type {ApiObjects, NodeDump, Snapshot} from './model/snapshot.ts';
export {parseDumps} from './parse/iptables/iptables-save.ts';
export {renderers} from './render/renderers.ts';
export {traceRenderers} from './render/trace-index.ts';
export type {Renderer, RenderOptions} from './render/renderer.ts';
