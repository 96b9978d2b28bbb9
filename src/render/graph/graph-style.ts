/** The colors and lines of pictures, as CSS. Faults are dashed and have a sign and a word as well as being red. */
export const graphStyle = `
:root { --ground: #fff; --ink: #1b1f24; --soft: #59636e; --line: #7d8590; --box: #f6f8fa; --bad: #b3261e; --bad-box: #fdeceb; --good: #1a7f37; --bar: #0b5cad; --track: #e1e5ea }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0d1117; --ink: #e6edf3; --soft: #9da7b1; --line: #6e7681; --box: #161b22; --bad: #ff8b82; --bad-box: #3b1715; --good: #56d364; --bar: #79b8ff; --track: #30363d }
}
svg text { fill: var(--ink); font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; white-space: pre }
svg text.caption { font-weight: bold; font-size: 14px }
svg text.title, svg text.share, svg text.fault { font-weight: bold }
svg text.share { text-anchor: end }
svg text.line, svg text.note { fill: var(--soft) }
svg .fault text.fault { fill: var(--bad) }
svg .fault text.line { fill: var(--ink) }
svg rect.box { fill: var(--box); stroke: var(--line) }
svg rect.ground { fill: var(--ground); stroke: none }
svg .ok rect.box { stroke: var(--good) }
svg .fault rect.box { fill: var(--bad-box); stroke: var(--bad); stroke-width: 1.6; stroke-dasharray: 5 3 }
svg rect.track { fill: var(--track); stroke: none }
svg rect.bar { fill: var(--bar); stroke: none }
svg .fault rect.bar { fill: var(--bad) }
svg .expected { stroke: var(--ink); stroke-width: 2 }
svg .arrow { fill: none; stroke: var(--line); stroke-width: 1.4 }
svg .head { fill: var(--line) }
svg .arrow.fault { stroke: var(--bad); stroke-dasharray: 5 3 }
svg .head.fault { fill: var(--bad) }
`;
