/** Null is "not measured", which is not 0. */
export function numberText(value: number | null): string {
  return value === null ? notMeasured : value.toLocaleString('en-US');
}

export function rateText(value: number | null): string {
  return value === null ? notMeasured : value.toLocaleString('en-US', {minimumFractionDigits: 1, maximumFractionDigits: 1});
}

export function shareText(value: number | null): string {
  return value === null ? notMeasured : `${(value * 100).toFixed(1)}%`;
}

export function counted(number: number, one: string, many = `${one}s`): string {
  return `${numberText(number)} ${number === 1 ? one : many}`;
}

const notMeasured = '-';
