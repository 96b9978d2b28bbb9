// The layers of the source: which folder may import from which. Checked by `npm run lint`; `npm run layers` writes them into
// docs/architecture.md, which says why.

/** Each folder of src/ with the other folders it may import from, in the order of docs/architecture.md. */
export const layers = {
  model: [],
  parse: ['model'],
  expect: ['model', 'parse'],
  compare: ['model', 'parse'],
  trace: ['model', 'parse'],
  analyze: ['model', 'parse', 'expect', 'compare', 'trace'],
  preview: ['model', 'parse', 'expect', 'compare', 'trace', 'analyze'],
  checks: ['model', 'parse', 'expect', 'compare', 'trace', 'analyze'],
  diagnosis: ['model', 'parse', 'expect', 'compare', 'trace', 'analyze', 'checks'],
  traffic: ['model', 'parse', 'expect', 'trace', 'analyze', 'checks', 'diagnosis'],
  diff: ['model', 'parse', 'expect', 'analyze'],
  redact: ['model', 'parse', 'expect'],
  render: ['model', 'trace', 'analyze', 'checks'],
};

/** The edge: it reads, writes and waits. Any of it may import from the core. */
export const edgeLayers = {
  collect: [],
  run: ['collect'],
  agent: ['collect', 'run'],
  cli: ['collect', 'run', 'agent'],
};

/**
 * What can be read, or deleted, by itself: the files of each feature under src/, and what else may import them beside the commands
 * (`src/cli/`). No feature imports another one, but where it stands here.
 */
export const features = {
  preview: {
    files: ['preview/', 'run/preview/', 'run/rules/', 'render/preview/', 'render/rules/'],
    usedBy: [],
  },
  top: {files: ['traffic/', 'run/top/', 'render/top/'], usedBy: ['agent/endpoint-connections.ts', 'render/table/diff-report.ts']},
  diff: {files: ['diff/', 'render/table/diff-report.ts'], usedBy: []},
  packet: {
    files: [
      'run/packet/',
      'analyze/packet-node.ts',
      'analyze/packet-query.ts',
      'analyze/packet-rules.ts',
      'analyze/packet-in-map.ts',
      'analyze/packet-in-text.ts',
      'analyze/packet-service.ts',
      'render/table/packet-report.ts',
    ],
    usedBy: [],
  },
  redact: {files: ['redact/'], usedBy: ['run/capture/']},
  watch: {files: ['run/watch/'], usedBy: []},
  agent: {files: ['agent/'], usedBy: []},
  pictures: {files: ['render/graph/'], usedBy: ['render/html/', 'render/trace-index.ts', 'render/table/tree.ts']},
};

/** Packages that only compute. One that reads, writes or waits belongs to the edge. */
const corePackages = ['@types/sarif', 'cli-table3', 'ipaddr.js', 'js-yaml', 'string-width'];

/** Where the types of API objects come from. Only src/model/ imports them; as a value it would be all of client-node. */
const typePackage = '^(node_modules/)?@kubernetes/client-node';

const core = `^src/(${Object.keys(layers).join('|')})/`;

export default {
  forbidden: [
    ...Object.entries(layers).map(([folder, others]) => ({
      name: `${folder}-imports-only-what-is-below-it`,
      severity: 'error',
      from: {path: `^src/${folder}/`},
      to: {path: '^src/', pathNot: `^src/(${[folder, ...others].join('|')})/`},
    })),
    ...Object.entries(edgeLayers).map(([folder, others]) => ({
      name: `${folder}-imports-only-what-is-below-it`,
      severity: 'error',
      from: {path: `^src/${folder}/`},
      to: {path: `^src/(${Object.keys(edgeLayers).join('|')})/`, pathNot: `^src/(${[folder, ...others].join('|')})/`},
    })),
    ...Object.entries(features).map(([feature, {files, usedBy}]) => ({
      name: `${feature}-is-a-feature-by-itself`,
      severity: 'error',
      from: {path: '^src/', pathNot: `^src/(cli/|${[...files, ...usedBy].join('|').replaceAll('.', '\\.')})`},
      to: {path: `^src/(${files.join('|').replaceAll('.', '\\.')})`},
    })),
    {
      name: 'core-touches-nothing-outside',
      comment: 'Everything after collecting is a pure function of the Snapshot, so that a bundle replays a whole run.',
      severity: 'error',
      from: {path: core},
      to: {dependencyTypes: ['core'], pathNot: '^(node:)?crypto$'},
    },
    {
      name: 'model-takes-only-types-from-the-client',
      severity: 'error',
      from: {path: '^src/model/'},
      to: {path: typePackage, dependencyTypesNot: ['type-only']},
    },
    {
      name: 'core-uses-only-packages-that-compute',
      severity: 'error',
      from: {path: core, pathNot: '^src/model/'},
      to: {pathNot: ['^src/', `^node_modules/(${corePackages.join('|').replaceAll('.', '\\.')})/`], dependencyTypesNot: ['core']},
    },
    {
      name: 'model-uses-only-packages-that-compute',
      severity: 'error',
      from: {path: '^src/model/'},
      to: {
        pathNot: ['^src/', typePackage, `^node_modules/(${corePackages.join('|').replaceAll('.', '\\.')})/`],
        dependencyTypesNot: ['core'],
      },
    },
    {
      name: 'no-circles',
      severity: 'error',
      from: {path: '^src/'},
      comment: 'Not even of types: two files that need each other are one file, or three.',
      to: {circular: true},
    },
    {
      name: 'sources-import-what-is-installed-with-them',
      comment: 'A development dependency is not there for those who install the package.',
      severity: 'error',
      from: {path: '^src/'},
      to: {dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown', 'unknown', 'undetermined'], dependencyTypesNot: ['type-only', 'core']},
    },
    {
      name: 'sources-import-sources',
      severity: 'error',
      from: {path: '^src/'},
      to: {path: '^(test|tools|dist|bin)/'},
    },
    {
      name: 'imports-lead-somewhere',
      severity: 'error',
      from: {path: '^src/'},
      to: {couldNotResolve: true},
    },
  ],
  options: {
    parser: 'swc',
    doNotFollow: {path: 'node_modules'},
    enhancedResolveOptions: {exportsFields: ['exports'], conditionNames: ['import', 'node', 'default', 'types']},
  },
};
