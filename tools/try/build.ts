// `npm run page` writes release/svc-trace.html, a page on which pasted rules are traced in the browser (docs/try.md).
import {globSync, mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {build, type Metafile} from 'esbuild';
import packageJson from '../../package.json' with {type: 'json'};
import {html, type Html, made, markup} from '../../src/render/markup.ts';
import {pageHead, style as pageStyle} from '../../src/render/html/page.ts';
import {bundledPackages} from '../release/bundled-packages.ts';
import {root} from '../release/run.ts';
import {thirdPartyLicenses} from '../release/third-party.ts';

const {version} = packageJson;

/** What asks objects of the API, their times and tables of Cilium, which the page has none of. */
const ofApi = /\/(?:cilium\/analyze-cilium|promise\/promise-breaches|packet-in-map|cilium-checks|since)\.ts$/;
/**
 * Checks of such objects, of their Service ports and of routes, which find nothing there: their codes are all that is left of them, and empty
 * lists of what others ask.
 */
const checksOfApi =
  /\/(?:iptables\/service-port\/(?:analyze-port|endpoint-change)|nftables\/service-port\/analyze-nft-port|ipvs\/analyze-ipvs-port|analyze\/outcomes\/unserved-addresses|expect\/(?:cluster\/(?:categorize-endpoints|endpoint-sets)|nftables\/overlong-names)|checks\/(?:objects\/[\w-]+|kernel\/(?:st61[1-4]-[\w-]+|facts-checks)|st11[89]-[\w-]+|promise-checks|traffic-checks))\.ts$/;

function codesIn(path: string): string {
  const text = readFileSync(path, 'utf8');
  const checks = [...text.matchAll(/^export const (\w+) = check\('(\w+)'/gm)].map(
    ([, name, code]) => `export const ${name} = {code: '${code}'};`,
  );
  const others = [...text.matchAll(/^export function\*? (\w+)/gm)].map(([, name]) => `export const ${name} = () => [];`);
  const lists = [...text.matchAll(/^export const (\w+): readonly Check\[/gm)].map(([, name]) => `export const ${name} = [];`);
  return [...checks, ...others, ...lists].join('\n');
}

/** The catalog of findings without the rows of what is left out. */
function catalogOf(path: string): string {
  const left = globSync('src/checks/**/*.ts', {cwd: root}).filter(file => checksOfApi.test(`/${file}`) || ofApi.test(`/${file}`));
  const codes = left.flatMap(file => readFileSync(join(root, file), 'utf8').match(/(?<=\bcheck\('|\bcode: ')ST\d+/g) ?? []);
  return readFileSync(path, 'utf8').replace(new RegExp(`^(?:${codes.join('|')}) .*\n.*\n.*\n`, 'gm'), '');
}

/** The page as one file, with the core in it. An import of Node.js in the core that stand-ins.ts does not have fails the build. */
export async function tryPage(): Promise<string> {
  const standIns = join(import.meta.dirname, 'stand-ins.ts');
  const {outputFiles, metafile} = await build({
    absWorkingDir: root,
    entryPoints: [join(import.meta.dirname, 'page.ts')],
    ...{bundle: true, write: false, metafile: true, minify: true},
    ...{platform: 'browser', format: 'iife', target: 'es2023', charset: 'utf8', legalComments: 'none', logLevel: 'warning'},
    alias: {'node:crypto': standIns, '@oclif/core': standIns, 'js-yaml': standIns},
    plugins: [
      {
        name: 'without-api',
        setup({onResolve, onLoad}) {
          onResolve({filter: ofApi}, () => ({path: standIns}));
          onLoad({filter: checksOfApi}, ({path}) => ({contents: codesIn(path)}));
          onLoad({filter: /\/checks\/catalog\.ts$/}, ({path}) => ({contents: catalogOf(path), loader: 'ts'}));
        },
      },
    ],
    inject: [standIns],
    define: {
      toolVersion: JSON.stringify(version),
      example: JSON.stringify(exampleRules()),
    },
  });
  const script = outputFiles[0]?.text ?? '';
  const head = pageHead({title: 'svc-trace: trace pasted rules', style, script, policy: ["connect-src 'none'"]});
  return html`${head}
<body>
<main>
<h1>Trace a Kubernetes Service through pasted rules</h1>
<p>Paste the output of <code>iptables-save</code>, <code>nft list ruleset</code>, <code>nft -j list ruleset</code> or <code>ipvsadm-save -n</code>, or a part of it.
Nothing leaves this page: the browser forbids it to connect to anything, and it works offline.</p>
<form id="trace">
<label class="whole" for="rules">Rules</label>
<textarea id="rules" class="whole" rows="7" spellcheck="false" autocomplete="off" autocapitalize="off" wrap="off"></textarea>
<label>or a file: <input id="file" type="file"></label>
<label>Service: <input id="service" autocomplete="off" placeholder="all" aria-describedby="service-forms"></label>
<button>Trace</button>
<button id="example" type="button">Example</button>
<p id="service-forms" class="note whole">A name, <code>namespace/name</code>, an address or a chain. Empty lists the Services in the rules.</p>
</form>
<nav id="services" aria-label="Services in these rules" hidden></nav>
<p id="status" role="status"></p>
<div id="pictures"></div>
<details id="text" hidden><summary>As the program prints it</summary><div><pre id="output" tabindex="0" role="region" aria-label="Result"></pre></div></details>
<h2>What the rules do to one packet</h2>
<form id="packet">
<label>Source: <input id="source" required autocomplete="off" placeholder="10.244.11.20"></label>
<label>Destination: <input id="destination" required autocomplete="off" placeholder="10.96.0.10"></label>
<label>Port: <input id="port" autocomplete="off" inputmode="numeric" size="6"></label>
<label>Protocol: <select id="protocol"><option>TCP<option>UDP<option>SCTP</select></label>
<label>Addresses of the node: <input id="local-address" autocomplete="off" placeholder="192.0.2.11"></label>
<button>Walk the packet</button>
</form>
<p id="packet-status" role="status"></p>
<pre id="answer" tabindex="0" role="region" aria-label="What happens to the packet" hidden></pre>
<noscript><p>This page needs JavaScript. The program does the same: <code>svc-trace trace --from rules.txt</code>.</p></noscript>
</main>
<footer>svc-trace ${version}. Without the objects of the API, it shows where packets go, and not whether that is right: <code>kubectl svc-trace check</code> compares.
<details><summary>Licenses</summary><div><pre>${licenses(metafile)}</pre></div></details></footer>
<script>${made(script)}</script>
</body>
</html>
`.html;
}

/** Line by line, since a value of HTML is one line. What several licenses say in the same words stands once. */
function licenses(metafile: Metafile): Html {
  const text = thirdPartyLicenses(bundledPackages(metafile)).replaceAll('-'.repeat(80), '---');
  const seen = new Set<string>();
  const paragraphs = text.split('\n\n').map(paragraph => {
    if (paragraph.length > 200 && seen.has(paragraph)) return '(as above)';
    seen.add(paragraph);
    return paragraph;
  });
  return made(paragraphs.join('\n\n').split('\n').map(markup).join('\n'));
}

/** Some Services of one namespace: the page has less than a megabyte. */
function exampleRules(): string {
  const dump = readFileSync(join(root, 'test/fixtures/captures/faults/skewed-balance/nodes/node-a/iptables-save'), 'utf8');
  const left =
    /--comment ".*?(?:infra\/|default\/|shop\/(?:both-local|empty-lb|external-ips|internal-local|leaving|half-leaving|lb-cluster|lb-local|lb-no-nodeport|lb-pending|lb-ranges|manual|nodal|nodeport-local|sleepy|sticky|unnamed-port|zonal)\b)/;
  const lines = dump
    .slice(dump.indexOf('*filter'))
    .split('\n')
    .filter(line => !/^#|KUBE-PROXY-CANARY/.test(line) && !left.test(line));
  const ofServices = /KUBE-(?:SVC|SVL|SEP|EXT|FW)-\w+/g;
  const ofLeftOut = /^(?::|-A KUBE-EXT-)/;
  const named = new Set(lines.flatMap(line => (ofLeftOut.test(line) ? [] : (line.match(ofServices) ?? []))));
  return lines.filter(line => !ofLeftOut.test(line) || (line.match(ofServices) ?? []).every(name => named.has(name))).join('\n');
}

const style = `${pageStyle}
main { padding-top: 20px }
h1 { margin-bottom: 8px }
.whole { flex: 1 0 100%; margin: 0 }
textarea { font: 13px/1.5 ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; color: inherit; background: var(--ground); border: 1px solid var(--line); border-radius: 4px; padding: 6px 8px; resize: vertical; max-width: 100% }
button { cursor: pointer; padding: 3px 14px }
form label { flex-wrap: wrap }
[role=status] { min-height: 1.5em; margin: 12px 0 4px; overflow-wrap: anywhere }
[role=status].error { color: var(--bad); font-weight: bold }
[role=status].warning { color: var(--warn); font-weight: bold }
#services { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(230px, 100%), 1fr)); gap: 6px; max-height: 236px; overflow-y: auto; margin: 12px 0; padding: 3px }
#services[hidden] { display: none }
#services p { grid-column: 1 / -1; margin: 0 }
#services button { text-align: left; padding: 5px 10px; border-color: var(--edge); border-left: 4px solid var(--edge); overflow-wrap: anywhere }
#services button span { display: block; color: var(--soft); font-size: 13px }
#services button.error, #services button.warning { border-left-color: var(--bad) }
#services button.error b, #services button.warning b { color: var(--bad) }
#services button[aria-current=true] { border-color: var(--info); background: var(--box) }
`;

if (import.meta.main) {
  const folder = join(root, 'release');
  const file = join(folder, 'svc-trace.html');
  const page = await tryPage();
  mkdirSync(folder, {recursive: true});
  writeFileSync(file, page);
  process.stderr.write(`${file}: ${Math.round(Buffer.byteLength(page) / 1000)} KB\n`);
}
