import type {Severity} from '../model/finding.ts';

/** Colors text, or leaves it unchanged. */
export interface Style {
  readonly bold: (text: string) => string;
  readonly dim: (text: string) => string;
  readonly red: (text: string) => string;
  readonly yellow: (text: string) => string;
  readonly green: (text: string) => string;
  readonly cyan: (text: string) => string;
}

export function styleOf(color: boolean): Style {
  const code = (open: number, close: number) => (text: string) => (color && text !== '' ? `\u001b[${open}m${text}\u001b[${close}m` : text);
  return {bold: code(1, 22), dim: code(2, 22), red: code(31, 39), yellow: code(33, 39), green: code(32, 39), cyan: code(36, 39)};
}

export function bySeverity(style: Style, severity: Severity): (text: string) => string {
  return severity === 'error' ? style.red : severity === 'warning' ? style.yellow : style.cyan;
}
