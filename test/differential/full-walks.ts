import {readFileSync} from 'node:fs';
import {registerHooks} from 'node:module';
import {fileURLToPath} from 'node:url';
import type {diagnose} from '../../src/diagnose.ts';
import type {preview} from '../../src/preview/preview.ts';

/** Functions that spare walks, with what they return when they spare none. The rest of their files stays as it is. */
const shortCuts: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  // Endpoint changes are known without a walk, or by one probe.
  'analyze/iptables/service-port/endpoint-change.ts': {
    endpointChange: '() => null',
    hasOtherEndpointsOnly: '() => false',
    lacksEndpointRulesOnly: '() => false',
  },
  'analyze/nftables/service-port/analyze-nft-port.ts': {hasOtherNftEndpointsOnly: '() => false'},
  // Rules of Service ports are kept for the next node.
  'expect/kept-rules.ts': {keptBySettings: '() => () => null'},
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
  'parse/nftables/nft-json-bytes.ts': {
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
export async function loadFullWalks(): Promise<FullWalks> {
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
  const {preview: previewInFull} = await import(`${source}preview/preview.ts?${mark}`);
  hooks.deregister();
  if (replaced.size < Object.keys(shortCuts).length) throw new Error(`only these files were loaded: ${[...replaced].join(', ')}`);
  return {diagnoseInFull, previewInFull};
}

/** The URL of the sources. */
const source = new URL('../../src/', import.meta.url).href;
