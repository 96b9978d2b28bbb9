import {escapeText} from './escape.ts';

/** One line of text as it may stand in XML and HTML, between tags and in quoted attributes. Characters that XML cannot hold are spelled out. */
export function markup(text: string): string {
  return escapeText(text)
    .replace(/[\ud800-\udfff\ufffe\uffff]/gu, character => `\\u${character.charCodeAt(0).toString(16)}`)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}
