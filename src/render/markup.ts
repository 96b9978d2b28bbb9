import {escapeText} from './terminal-text.ts';

/** Escapes one line of text for XML and HTML, between tags and in quoted attributes. Characters that are invalid in XML are spelled out. */
export function markup(text: string): string {
  return escapeText(text)
    .replace(/[\ud800-\udfff\ufffe\uffff]/gu, character => `\\u${character.charCodeAt(0).toString(16)}`)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}
