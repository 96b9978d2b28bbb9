// The script of the page: pasted rules in; Services to choose from, pictures, and the text that `trace --from` and `packet --from` print out.
// It sends and loads nothing.
import {reportRulesAlone} from '../../src/diagnosis/report-rules-alone.ts';
import {plainText} from '../../src/parse/lines.ts';
import type {Report} from '../../src/model/report.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {noDump, snapshotOfText} from '../../src/parse/pasted/split-text.ts';
import {findingsHtml, listFindings, NodeRanges} from '../../src/render/html/finding-list.ts';
import {picturesHtml} from '../../src/render/html/paths.ts';
import {type RenderOptions, styleOf} from '../../src/render/renderer.ts';
import {packetRenderers} from '../../src/render/table/packet-report.ts';
import {serviceList, tree} from '../../src/render/table/tree.ts';
import {verdictLine} from '../../src/render/verdict-line.ts';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {selectInRules} from '../../src/run/scope/select-in-rules.ts';
import {listedServices, serviceButtons} from './service-buttons.ts';
import {Errors} from './stand-ins.ts';

/** build.ts puts the version and the example in their places. */
declare const toolVersion: string;
declare const example: string;

const rules = byId('rules', HTMLTextAreaElement);
const file = byId('file', HTMLInputElement);
const service = byId('service', HTMLInputElement);
const services = byId('services', HTMLElement);
const pictures = byId('pictures', HTMLElement);
const text = byId('text', HTMLDetailsElement);
const output = byId('output', HTMLPreElement);
const answer = byId('answer', HTMLPreElement);
const pasted = 'pasted text';
let name = pasted;
/** The rules whose Services are listed. */
let listed = '';

byId('trace', HTMLFormElement).addEventListener('submit', event => {
  event.preventDefault();
  trace();
});
byId('packet', HTMLFormElement).addEventListener('submit', event => {
  event.preventDefault();
  run('packet-status', packet);
});
byId('example', HTMLButtonElement).addEventListener('click', () => {
  name = pasted;
  rules.value = example;
  choose('shop/web');
});
services.addEventListener('click', event => {
  const button = event.target instanceof Element ? event.target.closest('button') : null;
  if (button !== null) choose(button.value);
});
rules.addEventListener('input', () => {
  name = pasted;
});
// The Services of what is pasted or opened are listed at once.
rules.addEventListener('paste', () => setTimeout(() => choose('')));
file.addEventListener('change', async () => {
  const [chosen] = file.files ?? [];
  if (chosen === undefined) return;
  const content = plainText(Buffer.from(await chosen.arrayBuffer())).toString('utf8');
  name = chosen.name;
  rules.value = content;
  choose('');
});

function choose(wanted: string): void {
  service.value = wanted;
  trace();
}

function trace(): void {
  pictures.replaceChildren();
  text.hidden = true;
  run('status', snapshot => {
    list(snapshot);
    const wanted = service.value.trim();
    const report = reportOf(snapshot, wanted === '' ? [] : [wanted]);
    const places = {ranges: new NodeRanges(report), readAt: undefined, pathOf: () => null, all: false};
    if (wanted !== '')
      // HTML of the renderer of pages, which escapes all that it puts in.
      pictures.innerHTML =
        picturesHtml(report, '', {all: false, max: 12}).html + findingsHtml(listFindings(report.findings, false), places).html;
    pictures.querySelector('details.block, details.finding')?.setAttribute('open', '');
    text.hidden = false;
    output.textContent = (wanted === '' ? serviceList : tree)(report, options(output));
    const {errors, warnings} = report.summary;
    const state = errors > 0 ? 'error' : warnings > 0 ? 'warning' : '';
    return [verdictLine(report, styleOf(false)), wanted === '' ? '' : state];
  });
}

function reportOf(snapshot: Snapshot, names: readonly string[]): Report {
  const selection = {names, namespace: undefined, allNamespaces: true};
  return reportRulesAlone(snapshot, {toolVersion}, traces => selectInRules(traces, selection));
}

/** Lists the Services of rules that were not listed yet, and marks the chosen one. */
function list(snapshot: Snapshot): void {
  if (listed !== rules.value) {
    services.hidden = true;
    services.innerHTML = serviceButtons(listedServices(reportOf(snapshot, []))).html;
    services.hidden = services.childElementCount === 0;
    listed = rules.value;
  }
  for (const button of services.querySelectorAll('button'))
    button.setAttribute('aria-current', String(button.value === service.value.trim()));
}

function packet(snapshot: Snapshot): readonly [line: string, state: string] {
  const given = (id: string) => byId(id, HTMLInputElement).value.trim() || undefined;
  const flags = {
    ...{source: given('source') ?? '', destination: given('destination') ?? '', port: given('port')},
    protocol: byId('protocol', HTMLSelectElement).value,
    'local-address': given('local-address') === undefined ? undefined : [given('local-address') ?? ''],
  };
  const answers = askNodes(flags, snapshot, () => true);
  answer.hidden = false;
  answer.textContent = packetRenderers.tree(answers, options(answer));
  return ['', ''];
}

/** Does the work with the rules, and shows its line, or the error in the words of the program. */
function run(place: string, work: (snapshot: Snapshot) => readonly [line: string, state: string]): void {
  const status = byId(place, HTMLElement);
  if (place === 'packet-status') answer.hidden = true;
  try {
    const content = Buffer.from(rules.value);
    const snapshot = snapshotOfText(name, content);
    if (snapshot === null) throw new Errors.CLIError(`${rules.value.trim() === '' ? 'an empty text' : name} ${noDump(content)}`);
    [status.textContent, status.className] = work(snapshot);
  } catch (error) {
    const isExpected = error instanceof Errors.CLIError;
    const message = error instanceof Error ? error.message : String(error);
    status.textContent = `Error: ${message}${isExpected ? '' : ' (please report it, with the text)'}`;
    status.className = 'error';
  }
  const isListed = place === 'status' && status.className !== 'error' && pictures.childElementCount === 0 && !services.hidden;
  (isListed ? services : status).scrollIntoView();
}

function options(place: HTMLPreElement): RenderOptions {
  return {color: false, width: Math.max(40, columnsOf(place)), quiet: false, verbose: false, failOn: 'error'};
}

/** How many characters a line there holds. */
function columnsOf(place: HTMLPreElement): number {
  const wasOpen = text.open;
  text.open = true;
  const ruler = document.createElement('span');
  ruler.textContent = 'x'.repeat(20);
  place.replaceChildren(ruler);
  const {paddingLeft, paddingRight} = getComputedStyle(place);
  const room = place.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight);
  const columns = Math.floor(room / (ruler.getBoundingClientRect().width / 20));
  text.open = wasOpen;
  return columns;
}

function byId<T extends HTMLElement>(id: string, type: new () => T): T {
  const element = document.getElementById(id);
  if (!(element instanceof type)) throw new Error(`the page has no ${id}`);
  return element;
}
