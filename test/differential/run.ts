// `npm run test:differential -- --cases 1000 [--seed 1] [--try copies|ipvs|nft-json|preview]`. nft-json needs root and nft.
import process from 'node:process';
import {parseArgs} from 'node:util';
import {spawnSync} from 'node:child_process';
import {readFileSync} from 'node:fs';
import {registerHooks} from 'node:module';
import {fileURLToPath} from 'node:url';
import {diagnose} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {PreviewChange} from '../../src/model/preview-result.ts';
import type {ApiObjects, NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {preview} from '../preview-of.ts';
import {randomCase} from './random-case.ts';
import type {ConfigOverrides} from '../../src/expect/resolve-proxy-config.ts';
import {type Random, seededRandom} from '../bench/random.ts';
import {changeObjects} from './object-faults.ts';
import {withFiles} from '../fixtures.ts';

/** Functions that spare walks, with what they return when they spare none. The rest of their files stays as it is. */
const shortCuts: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  // Endpoint changes are known without a walk, or by one probe.
  'analyze/iptables/service-port/endpoint-change.ts': {
    endpointChange: '() => null',
    lacksEndpointRulesOnly: '() => false',
  },
  'analyze/nftables/service-port/analyze-nft-port.ts': {hasOtherNftEndpointsOnly: '() => false'},
  // Rules of Service ports are kept for the next node.
  'expect/iptables/port-rules.ts': {keptRules: '() => null'},
  // One Service port of a group is walked through third-party rules.
  'analyze/third-party/distinctions.ts': {
    representatives: `(ports, isAsExpected) => {
      const ordered = ports.toSorted((a, b) => a.endpoints.reachable.length - b.endpoints.reachable.length);
      const isRight = new Set(ports.filter(isAsExpected));
      const first = ordered.findIndex(item => isRight.has(item));
      const tried = first < 0 ? ordered : ordered.filter((item, index) => index < first || isRight.has(item));
      return tried.map(item => ({item, alike: isRight.has(item) ? ports : []}));
    }`,
  },
  // Base rules are tried with one Service port of each shape.
  'analyze/outcomes/outcome-changes.ts': {onePerShape: 'ports => ports'},
  // The bytes of nft's JSON are compared with what kube-proxy's rules are expected to be printed as.
  'parse/nftables/nft-json-chains.ts': {
    JsonChainCheck: `class {
      #names = [];
      chain(name) { this.#names.push(name); }
      rule() {}
      takeOthers() { return this.#names.splice(0); }
      isHeld() { return false; }
      nextOther(from) { return from; }
    }`,
  },
  // A preview walks one Service port of each group, on one node of each shape. Sets, of which nothing is known, make each one a group.
  'preview/alike-ports.ts': {constantsIn: '() => ({networks: [], ports: [], usesSets: true})'},
};

const mark = 'full-walks';

interface FullWalks {
  readonly diagnoseInFull: typeof diagnose;
  readonly previewInFull: typeof preview;
}

/** Loads a second copy of the program, in which all Service ports are walked on every node. */
async function loadFullWalks(): Promise<FullWalks> {
  const replaced = new Set<string>();
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      const resolved = next(specifier, context);
      const isOfCopy = context.parentURL !== undefined && new URL(context.parentURL).searchParams.has(mark);
      if (!isOfCopy || !resolved.url.startsWith(source)) return resolved;
      const url = new URL(resolved.url);
      url.searchParams.set(mark, '');
      return {...resolved, url: url.href};
    },
    load(url, context, next) {
      const {searchParams, pathname, href} = new URL(url);
      const functions = searchParams.has(mark) ? shortCuts[pathname.slice(new URL(source).pathname.length)] : undefined;
      if (functions === undefined) return next(url, context);
      replaced.add(pathname);
      let text = readFileSync(fileURLToPath(href), 'utf8');
      for (const [name, body] of Object.entries(functions)) {
        // The rest of the file calls what replaces it, too.
        const declared = new RegExp(`^(export )?(function|class) ${name}\\b`, 'm').exec(text);
        if (declared === null) throw new Error(`${pathname} does not declare ${name}`);
        const [declaration, exported = '', kind] = declared;
        text = `${text.replace(declaration, () => `${kind} ${name}Unused`)}\n${exported}const ${name} = ${body};\n`;
      }
      return {format: 'module-typescript', shortCircuit: true, source: text};
    },
  });
  const {diagnose: diagnoseInFull} = await import(`${source}diagnose.ts?${mark}`);
  const {preview: previewInFull} = await import(`../preview-of.ts?${mark}`);
  hooks.deregister();
  if (replaced.size < Object.keys(shortCuts).length) throw new Error(`only these files were loaded: ${[...replaced].join(', ')}`);
  return {diagnoseInFull, previewInFull};
}

/** The URL of the sources. */
const source = new URL('../../src/', import.meta.url).href;

const {diagnoseInFull, previewInFull} = await loadFullWalks();

/** What is tried: the findings of nodes, also with copies of each Service or in a given proxy mode, or a preview. */
type Tried = 'check' | 'copies' | 'ipvs' | 'nft-json' | 'preview';

/** What differs between two ways to the same findings: a line for each finding that only one of them has. */
function tryCase(seed: number, tried: Tried = 'check'): readonly string[] {
  if (tried === 'preview') return tryPreview(seed);
  if (tried === 'check') return tryCheck(randomCase(seed));
  if (tried === 'copies') return tryCheck(randomCase(seed, {copies: 1 + (seed % 3)}));
  if (tried === 'ipvs') return tryCheck(randomCase(seed, {mode: 'ipvs', copies: seed % 3}));
  const inText = randomCase(seed, {mode: 'nftables', copies: seed % 3});
  const printed = inText.nodes.map(withNftJson);
  const nodes = printed.filter(node => node !== null);
  const readable = {...inText, nodes: inText.nodes.filter((_, index) => printed[index] !== null)};
  return [
    ...tryCheck({...inText, nodes, chosenNodes: true}),
    ...differences(
      ['JSON', eachAlone({...inText, nodes}, diagnose).map(withoutPlaces)],
      ['text', eachAlone(readable, diagnose).map(withoutPlaces)],
    ),
  ];
}

function tryCheck(snapshot: Snapshot): readonly string[] {
  const found = ofNodes(diagnose(snapshot, {toolVersion: '0'}).findings);
  const alone = eachAlone(snapshot, diagnose);
  const reversed = ofNodes(diagnose({...snapshot, nodes: snapshot.nodes.toReversed()}, {toolVersion: '0'}).findings);
  const inFull = eachAlone(snapshot, diagnoseInFull);
  return [
    ...differences(['all nodes together', found], ['each node alone', alone]),
    ...differences(['nodes in one order', found], ['in the other', reversed]),
    ...differences(['short cuts', alone.map(withoutExample)], ['full walks', inFull.map(withoutExample)]),
  ];
}

function eachAlone(snapshot: Snapshot, check: typeof diagnose): readonly Finding[] {
  return snapshot.nodes.flatMap(node => ofNodes(check({...snapshot, nodes: [node]}, {toolVersion: '0'}).findings, node.name));
}

function tryPreview(seed: number): readonly string[] {
  const {snapshot, overrides, apiAfter} = randomChange(seed);
  const wholes = [preview, previewInFull].map(ofProgram => {
    const plan = {overrides, configFile: null};
    const {changes, requirements, advice} = ofProgram({
      ...{snapshot, nodes: snapshot.nodes, plan, apiAfter, selects: () => true, scope: [], services: 0, expectedOnly: false, notes: []},
    });
    return [...changes.map(changeText), ...[...requirements, ...advice].map(item => JSON.stringify(item))];
  });
  const [shared = [], inFull = []] = wholes;
  const only = (name: string, own: readonly string[], rest: ReadonlySet<string>): readonly string[] =>
    own.filter(line => !rest.has(line)).map(line => `${name}: ${line}`);
  return [...only('groups, not full walks', shared, new Set(inFull)), ...only('full walks, not groups', inFull, new Set(shared))];
}

function changeText({node, service, port, packet, source, effect, cause, before, after}: PreviewChange): string {
  const ends = [before, after].map(outcomes => JSON.stringify(outcomes)).join(' to ');
  return `${node} ${service.namespace}/${service.name}:${port.name} ${source.kind} ${packet.source} ${packet.destination}:${packet.port} ${effect} ${cause.id} ${ends}`;
}

/** Text and JSON name other places of the same rule, and spell it differently. */
function withoutPlaces({expected: _, actual: __, ...finding}: Finding): Finding {
  return finding;
}

/**
 * A finding about a whole node names one of the Service ports that show it, the first that are affected, and parts of its senders: which
 * ones depends on those that were walked.
 */
function withoutExample(whole: Finding): Finding {
  if (whole.service !== undefined) return whole;
  const {hits: _, ...finding} = whole;
  const [before = ''] = finding.message.split('packets from ');
  const counts = finding.message.match(/\d+ Service ports?/g) ?? [];
  const affects = finding.affects?.toSorted((a, b) => (namedText(a) < namedText(b) ? -1 : 1));
  return {...finding, message: [before, ...counts].join(' '), hitSenders: [], ...(affects && {affects})};
}

function namedText(service: object): string {
  return JSON.stringify(service);
}

/** Those of one node, or of all nodes. */
function ofNodes(findings: readonly Finding[], name?: string): readonly Finding[] {
  return findings.filter(({node}) => node !== undefined && (name === undefined || node === name));
}

type Findings = readonly [name: string, findings: readonly Finding[]];

function differences([one, ofOne]: Findings, [other, ofOther]: Findings): readonly string[] {
  const [lines, others] = [ofOne, ofOther].map(findings => findings.map(finding => JSON.stringify(finding)));
  const only = (name: string, own: readonly string[] = [], rest: readonly string[] = []): readonly string[] =>
    own.filter(line => !rest.includes(line)).map(line => `${name}: ${summaryOf(line)}`);
  return [...only(`${one}, not ${other}`, lines, others), ...only(`${other}, not ${one}`, others, lines)];
}

function summaryOf(line: string): string {
  const {severity, code, node, family, message}: Finding = JSON.parse(line);
  return [severity, code, node, family, message].join(' ');
}

/** The node with its rules as the kernel holds them, as `nft -j list ruleset` prints them; null if the kernel refuses the rules. */
function withNftJson(node: NodeDump): NodeDump | null {
  // What nft merges into one network stays a set, and a set of one network does not.
  const input = (node.read('nft.txt')?.toString() ?? '').replace(/ saddr != \{ ([^,}]+) \}/g, ' saddr != { $1, $1 }');
  const {status, stdout} = spawnSync('unshare', ['--net', 'sh', '-c', 'nft -f - && nft -j list ruleset'], {input, maxBuffer: 1e9});
  if (status !== 0) return null;
  return withFiles(node, {'nft.txt': null, 'nft.json': stdout});
}

interface RandomChange {
  readonly snapshot: Snapshot;
  readonly overrides: ConfigOverrides;
  readonly apiAfter: ApiObjects;
}

/** A cluster of nodes with faults in any mode, with copies of each Service, and a change of kube-proxy's settings or of the objects. */
function randomChange(seed: number): RandomChange {
  const random = seededRandom(seed + 1_000_000_007);
  const mode = random.pick(['iptables', 'iptables', 'nftables', 'ipvs'] as const);
  const snapshot = randomCase(seed, {mode, copies: 1 + random.below(2)});
  const apiAfter = random.chance(0.2) ? changeObjects(snapshot.api, random) : snapshot.api;
  return {snapshot, overrides: overridesOf(random), apiAfter};
}

function overridesOf(random: Random): ConfigOverrides {
  return {
    ...(random.chance(0.7) ? {mode: random.pick(['iptables', 'nftables', 'nftables', 'ipvs'] as const)} : {}),
    ...(random.chance(0.4) ? {version: random.pick(['v1.30.0', 'v1.34.0', 'v1.36.0', 'v1.37.0'])} : {}),
    ...(random.chance(0.2) ? {masqueradeAll: random.chance(0.5)} : {}),
    ...(random.chance(0.2) ? {clusterCIDRs: random.pick([['10.244.0.0/16', 'fd00:10::/32'], ['10.244.1.0/24'], ['10.0.0.0/8']])} : {}),
    ...(random.chance(0.2) ? {nodePortAddresses: random.pick([['192.168.1.0/24'], ['primary'], ['127.0.0.0/8']])} : {}),
  };
}

const {values} = parseArgs({
  options: {cases: {type: 'string', default: '1000'}, seed: {type: 'string', default: '1'}, try: {type: 'string', default: 'check'}},
});
const [first, count] = [Number(values.seed), Number(values.cases)];
let failed = 0;
for (let seed = first; seed < first + count; seed++) {
  const problems = tryCase(seed, values.try as Tried);
  if (problems.length === 0) continue;
  failed++;
  process.stdout.write(`case ${seed}\n${problems.map(problem => `  ${problem}\n`).join('')}`);
}
process.stdout.write(`${count} cases from ${first} on, ${failed} failed\n`);
if (failed > 0) process.exitCode = 1;
