// The script of the page: pasted rules in, the text that `trace --from` and `packet --from` print out. It sends and loads nothing.
import {reportRulesAlone} from '../../src/diagnosis/report-rules-alone.ts';
import {plainText} from '../../src/parse/lines.ts';
import type {Report} from '../../src/model/report.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {noDump, snapshotOfText} from '../../src/parse/pasted/split-text.ts';
import {picturesHtml} from '../../src/render/html/paths.ts';
import type {RenderOptions} from '../../src/render/renderer.ts';
import {packetRenderers} from '../../src/render/table/packet.ts';
import {serviceList} from '../../src/render/table/service-list.ts';
import {tree} from '../../src/render/table/tree.ts';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {selectInRules} from '../../src/run/scope/select-in-rules.ts';
import {Errors} from './stand-ins.ts';

/** build.ts puts the version and the example in their places. */
declare const toolVersion: string;
declare const example: string;

const rules = byId('rules', HTMLTextAreaElement);
const file = byId('file', HTMLInputElement);
const output = byId('output', HTMLPreElement);
const pictures = byId('pictures', HTMLElement);
const status = byId('status', HTMLElement);
const pasted = 'pasted text';
let name = pasted;

byId('trace', HTMLFormElement).addEventListener('submit', event => run(event, trace));
byId('packet', HTMLFormElement).addEventListener('submit', event => run(event, packet));
byId('example', HTMLButtonElement).addEventListener('click', event => {
  name = pasted;
  rules.value = example;
  field('service').value = 'shop/web';
  run(event, trace);
});
rules.addEventListener('input', () => {
  name = pasted;
});
file.addEventListener('change', async () => {
  const [chosen] = file.files ?? [];
  if (chosen === undefined) return;
  name = chosen.name;
  rules.value = plainText(Buffer.from(await chosen.arrayBuffer())).toString('utf8');
  field('service').value = '';
  show(`${chosen.name} is read. Choose "Trace".`);
});

/** Shows what the work returns, or the error in the words of the program. */
function run(event: Event, work: (snapshot: Snapshot) => Result): void {
  event.preventDefault();
  const start = performance.now();
  try {
    const content = Buffer.from(rules.value);
    const snapshot = snapshotOfText(name, content);
    if (snapshot === null) throw new Errors.CLIError(`${rules.value.trim() === '' ? 'an empty text' : name} ${noDump}`);
    const {text, drawn = ''} = work(snapshot);
    show(`Done in ${Math.round(performance.now() - start)} ms, in this page.`);
    output.hidden = false;
    output.textContent = text;
    pictures.innerHTML = drawn;
    status.scrollIntoView();
  } catch (error) {
    const isExpected = error instanceof Errors.CLIError;
    show(`Error: ${error instanceof Error ? error.message : String(error)}${isExpected ? '' : ' (please report it, with the text)'}`, true);
  }
}

interface Result {
  readonly text: string;
  /** HTML of the renderer of pages, which escapes all that it puts in. */
  readonly drawn?: string;
}

function trace(snapshot: Snapshot): Result {
  const service = field('service').value.trim();
  const selection = {names: service === '' ? [] : [service], namespace: undefined, allNamespaces: true};
  let all: Report['services'] = [];
  const report = reportRulesAlone(snapshot, {toolVersion}, traces => {
    all = traces.map(each => each.service);
    return selectInRules(traces, selection);
  });
  const names = [...new Set(all.map(each => `${each.namespace}/${each.name}`))];
  byId('services', HTMLDataListElement).replaceChildren(...names.slice(0, 500).map(each => new Option('', each)));
  if (service === '') return {text: serviceList(report, options())};
  return {text: tree(report, options()), drawn: picturesHtml(report, '', {all: false, max: 12}).html};
}

function packet(snapshot: Snapshot): Result {
  const given = (id: string) => field(id).value.trim() || undefined;
  const flags = {
    ...{source: given('source') ?? '', destination: given('destination') ?? '', port: given('port')},
    protocol: byId('protocol', HTMLSelectElement).value,
    'local-address': given('local-address') === undefined ? undefined : [given('local-address') ?? ''],
  };
  return {
    text: packetRenderers.tree(
      askNodes(flags, snapshot, () => true),
      options(),
    ),
  };
}

function options(): RenderOptions {
  return {color: false, width: Math.max(40, columns()), quiet: false, verbose: false, failOn: 'error'};
}

/** How many characters a line of the output holds. */
function columns(): number {
  output.hidden = false;
  const ruler = document.createElement('span');
  ruler.textContent = 'x'.repeat(20);
  output.replaceChildren(ruler);
  const {paddingLeft, paddingRight} = getComputedStyle(output);
  const room = output.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight);
  return Math.floor(room / (ruler.getBoundingClientRect().width / 20));
}

/** One line in place of what was shown before. */
function show(text: string, isError = false): void {
  status.textContent = text;
  status.className = isError ? 'error' : '';
  output.hidden = true;
  pictures.replaceChildren();
}

function field(id: string): HTMLInputElement {
  return byId(id, HTMLInputElement);
}

function byId<T extends HTMLElement>(id: string, type: new () => T): T {
  const element = document.getElementById(id);
  if (!(element instanceof type)) throw new Error(`the page has no ${id}`);
  return element;
}
