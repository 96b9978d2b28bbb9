/**
 * Wraps text at `max` columns of a monospaced font: at blanks; in a longer word after a character that joins the parts of a name, such as
 * a hyphen; else anywhere. Nothing is left out.
 */
export function wrapLetters(text: string, max: number): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const part of partsOf(text, max)) {
    if (line !== '' && columnsOf(line + part.trimEnd()) > max) {
      lines.push(line.trimEnd());
      line = part;
    } else line += part;
  }
  return line.trimEnd() === '' && lines.length > 0 ? lines : [...lines, line.trimEnd()];
}

/** Words with the blanks after them; a word that is wider than a line is divided into the parts of the name. */
function partsOf(text: string, max: number): readonly string[] {
  const words = text.match(/\S*\s+|\S+/gu) ?? [];
  return words.flatMap(word => {
    if (columnsOf(word.trimEnd()) <= max) return [word];
    return (word.match(/[^/.,:_-]*[/.,:_-]|[^/.,:_-]+/gu) ?? []).flatMap(part => pieces(part, max));
  });
}

function pieces(part: string, max: number): readonly string[] {
  const all: string[] = [];
  let piece = '';
  for (const letter of part) {
    if (columnsOf(piece + letter) > max) {
      all.push(piece);
      piece = letter;
    } else piece += letter;
  }
  return [...all, piece];
}

/** How many letters wide a text is: letters that are drawn on a square take two columns. */
export function columnsOf(text: string): number {
  let columns = 0;
  for (const letter of text) columns += isWide.test(letter) ? 2 : 1;
  return columns;
}

const isWide = /\p{Extended_Pictographic}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/u;
