/** The colours and lines of graphs, as CSS. Faults are dashed as well as red. */
export const graphStyle = `
:root { --ground: #fff; --ink: #1b1f24; --soft: #59636e; --line: #8b949e; --box: #f6f8fa; --bad: #b3261e; --bad-box: #fdeceb; --good: #1a7f37 }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0d1117; --ink: #e6edf3; --soft: #9da7b1; --line: #6e7681; --box: #161b22; --bad: #ff8b82; --bad-box: #3b1715; --good: #56d364 }
}
text { fill: var(--ink); font: 12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; text-anchor: middle }
text.title { font: bold 14px system-ui, 'DejaVu Sans', sans-serif; text-anchor: start }
text.heading { font: 13px system-ui, 'DejaVu Sans', sans-serif; text-anchor: start }
text.label { fill: var(--soft); font: 11px system-ui, 'DejaVu Sans', sans-serif; text-anchor: start }
rect { fill: var(--box); stroke: var(--line) }
rect.ground { fill: var(--ground); stroke: none }
.arrow { fill: none; stroke: var(--line); stroke-width: 1.3 }
.head { fill: var(--line) }
.endpoint rect { stroke: var(--good) }
.fault rect { fill: var(--bad-box); stroke: var(--bad); stroke-width: 1.6; stroke-dasharray: 5 3 }
.fault text, .label.fault { fill: var(--bad) }
.arrow.fault { stroke: var(--bad); stroke-dasharray: 5 3 }
.head.fault { fill: var(--bad) }
`;
