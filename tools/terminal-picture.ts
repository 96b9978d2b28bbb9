// What a program prints to a terminal, with its colors, as a picture.

/** Width of a character and height of a line, at a font size of 14. */
const cell = {width: 8.4, height: 19};
const margin = 16;
const header = 34;

const background = '#0d1117';
const foreground = '#d6dde6';
const colors: Readonly<Record<string, string>> = {'31': '#ff7b72', '32': '#56d364', '33': '#e3b341', '36': '#39c5cf'};
const dim = '#8b949e';

interface Look {
  readonly color: string | undefined;
  readonly isBold: boolean;
  readonly isDim: boolean;
}

const plain: Look = {color: undefined, isBold: false, isDim: false};

/** An SVG of the text. Each run of one look has its own place, so that columns meet whatever font there is. */
export function terminalPicture(text: string, columns: number, title: string): string {
  const lines = text.trimEnd().split('\n');
  const width = Math.ceil(columns * cell.width + 2 * margin);
  const height = header + lines.length * cell.height + margin;
  let look = plain;
  const drawn = lines.map((line, index) => {
    const [runs, last] = runsOf(line, look);
    look = last;
    return `<text y="${header + (index + 1) * cell.height - 5}">${runs}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>${escaped(title)}</title>
<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:${foreground};white-space:pre}</style>
<rect width="${width}" height="${height}" rx="8" fill="${background}"/>
<g fill="#484f58"><circle cx="20" cy="18" r="5"/><circle cx="38" cy="18" r="5"/><circle cx="56" cy="18" r="5"/></g>
${drawn.join('\n')}
</svg>
`;
}

/** The parts of a line, and the look with which it ends. */
function runsOf(line: string, start: Look): readonly [runs: string, last: Look] {
  let look = start;
  let column = 0;
  let runs = '';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: color codes begin with one
  for (const part of line.split(/(\u001b\[\d+m)/)) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: as above
    const code = /^\u001b\[(\d+)m$/.exec(part)?.[1];
    if (code !== undefined) look = changed(look, code);
    else if (part !== '') {
      runs += run(part, column, look);
      column += part.length;
    }
  }
  return [runs, look];
}

function changed(look: Look, code: string): Look {
  if (code === '1') return {...look, isBold: true};
  if (code === '2') return {...look, isDim: true};
  if (code === '22') return {...look, isBold: false, isDim: false};
  if (code === '39') return {...look, color: undefined};
  const color = colors[code];
  if (color === undefined) throw new Error(`no color is known for the code ${code}`);
  return {...look, color};
}

function run(text: string, column: number, {color, isBold, isDim}: Look): string {
  const fill = color ?? (isDim ? dim : undefined);
  const attributes = [
    ` x="${Math.round((margin + column * cell.width) * 10) / 10}"`,
    ` textLength="${Math.round(text.length * cell.width * 10) / 10}"`,
    fill === undefined ? '' : ` fill="${fill}"`,
    isBold ? ' font-weight="bold"' : '',
  ];
  return `<tspan${attributes.join('')}>${escaped(text)}</tspan>`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
