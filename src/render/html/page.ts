import {createHash} from 'node:crypto';
import type {Report} from '../../model/report.ts';
import {styleOf} from '../style.ts';
import {verdictLine} from '../verdict-line.ts';
import {type Html, html, made} from './html.ts';
import {provenanceHtml} from './provenance.ts';
import type {RenderOptions} from '../renderer.ts';
import {script} from './script.ts';
import {style} from './page-style.ts';

/** The page of a report. */
export function reportPage(report: Report, options: RenderOptions, {title, body}: Pick<PageContent, 'title' | 'body'>): string {
  const {tool, scope} = report;
  return page({
    ...{title, body, verdict: verdictLine(report, styleOf(false)), tone: toneOf(report)},
    facts: provenanceHtml(options, scope),
    footer: `${tool.name} ${tool.version}`,
  });
}

interface PageContent {
  readonly title: string;
  /** The heading. */
  readonly verdict: string;
  readonly tone: 'ok' | 'warning' | 'error';
  /** Where the page comes from. */
  readonly facts: Html;
  readonly body: readonly Html[];
  readonly footer: string;
}

/**
 * A page without dependencies: it loads nothing and sends nothing. Its Content-Security-Policy allows its own script and style only, by
 * their hashes.
 */
export function page({title, verdict, tone, facts, body, footer}: PageContent): string {
  return html`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy()}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>${title}: ${verdict}</title>
<style>${made(style)}</style>
</head>
<body>
<header class="${tone}"><h1>${verdict}</h1></header>
<main>
${facts}
${body}
</main>
<footer>${footer}</footer>
<script>${made(script)}</script>
</body>
</html>`.html;
}

function policy(): string {
  const allowed = ["default-src 'none'", `style-src ${hashOf(style)}`, `script-src ${hashOf(script)}`];
  return [...allowed, "base-uri 'none'", "form-action 'none'"].join('; ');
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

function toneOf({summary}: Report): PageContent['tone'] {
  if (summary.errors > 0) return 'error';
  return summary.verdict === 'ok' && summary.warnings === 0 ? 'ok' : 'warning';
}
