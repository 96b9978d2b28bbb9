/**
 * The script of the page: it filters, and unfolds everything for print. All its data are in the page: nodes are their index in the table
 * of nodes, as ranges such as `0-3 7`.
 */
export const script = `
'use strict';
const all = selector => [...document.querySelectorAll(selector)];
const form = document.getElementById('filters');
if (form !== null) {
  const nodes = all('#nodes tbody th').map(cell => cell.textContent.toLowerCase());
  const findings = all('.finding');
  const blocks = all('.block');
  const output = document.getElementById('shown');
  const rows = all('#matrix tbody tr');
  const columns = all('#matrix thead th[data-nodes]');
  const paths = all('.path');
  const isOnNode = (element, text) => text === '' || (element.dataset.nodes || '').split(' ').some(range => {
    if (range === '') return false;
    const [first, last = first] = range.split('-').map(Number);
    for (let at = first; at <= last; at++) if (nodes[at].includes(text)) return true;
    return false;
  });
  const apply = () => {
    const given = new FormData(form);
    const severities = given.getAll('severity');
    const code = given.get('code');
    const service = given.get('service').trim().toLowerCase();
    const node = given.get('node').trim().toLowerCase();
    const isOfService = element => (element.dataset.service || '').toLowerCase().includes(service);
    const isFiltered = code !== '' || severities.length < form.querySelectorAll('[name=severity]').length;
    for (const finding of findings)
      finding.hidden = !(severities.includes(finding.dataset.severity) && (code === '' || finding.dataset.code === code)
        && isOfService(finding) && isOnNode(finding, node));
    for (const row of rows)
      row.hidden = !isOfService(row) || (isFiltered && !row.dataset.found.split(' ').some(found => {
        const [severity, found_code] = found.split(':');
        return severities.includes(severity) && (code === '' || code === found_code);
      }));
    for (const column of columns) {
      const isHidden = !isOnNode(column, node);
      column.hidden = isHidden;
      for (const row of rows) row.cells[column.cellIndex].hidden = isHidden;
    }
    for (const path of paths) path.hidden = !isOfService(path);
    const isNarrowed = isFiltered || service !== '' || node !== '';
    for (const block of blocks) {
      block.hidden = block.querySelector('.finding:not([hidden])') === null;
      if (isNarrowed && !block.hidden) block.open = true;
    }
    const shown = findings.filter(finding => !finding.hidden).reduce((sum, finding) => sum + Number(finding.dataset.count), 0);
    output.textContent = 'Showing ' + shown + ' of ' + output.dataset.total + ' findings';
  };
  form.addEventListener('input', apply);
  form.addEventListener('submit', event => event.preventDefault());
  form.addEventListener('reset', () => queueMicrotask(apply));
  form.hidden = false;
  apply();
}
let opened = [];
addEventListener('beforeprint', () => {
  opened = all('details:not([open])');
  for (const details of opened) details.open = true;
});
addEventListener('afterprint', () => {
  for (const details of opened) details.open = false;
});
`;
