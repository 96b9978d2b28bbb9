import {UnreadableText} from '../../model/text.ts';
import {type Fields, isObject, readJson} from '../attempt.ts';
import {expressionText, isBinary, listOf, onlyEntry, stylesOf, asText} from './nft-json-expression.ts';

/** What stands in the place of an object may be the half of several. */
export function notJson(text: string): UnreadableText {
  return new UnreadableText(`its nft.json was damaged: this is no JSON: ${text.slice(0, maxShown)}`);
}

const maxShown = 120;

/** The canonical text of a rule; its JSON if that is not one. */
export function ruleText(json: string): string {
  const read = readJson(json);
  if (read === undefined) throw notJson(json);
  const [, rule] = onlyEntry(read);
  return isObject(rule) ? jsonRuleText(rule['expr'], rule['comment']) : json;
}

/** A rule of `nft -j` in canonical text. */
export function jsonRuleText(expressions: unknown, comment: unknown): string {
  const body = listOf(expressions)
    .map(statementText)
    .filter(text => text !== '')
    .join(' ');
  return typeof comment === 'string' ? `${body} comment "${comment}"` : body;
}

/** `limit lim { rate 5/second }` and `quota q { over 900 bytes }`, as a list of text declares them. */
export function declaredLimit(kind: 'limit' | 'quota', {bytes, ...fields}: Fields): string {
  const own = kind === 'limit' ? fields : {...fields, val: bytes, val_unit: 'bytes', used_unit: 'bytes'};
  return `${kind} ${asText(fields['name'])} { ${statementText({[kind]: own}).slice(kind.length + 1)} }`;
}

function statementText(statement: unknown): string {
  const [name, content] = onlyEntry(statement);
  const write = Object.hasOwn(writers, name) ? writers[name] : undefined;
  if (write !== undefined) return write(isObject(content) ? content : {}, content);
  return name === '' ? JSON.stringify(statement) : expressionText(statement);
}

type StatementWriter = (fields: Fields, content: unknown) => string;

const writers: Readonly<Record<string, StatementWriter>> = {
  match: matchText,
  vmap: ({key, data}) => `${expressionText(key)} vmap ${expressionText(data, stylesOf(key))}`,
  mangle: ({key, value}) => `${expressionText(key)} set ${expressionText(value, stylesOf(key))}`,
  dnat: fields => natText('dnat', fields),
  snat: fields => natText('snat', fields),
  masquerade: fields => natText('masquerade', fields),
  redirect: fields => natText('redirect', fields),
  reject: rejectText,
  reset: fields => `reset ${expressionText(fields)}`,
  set: ({op, elem, set, stmt}) => `${asText(op)} ${asText(set)} { ${words([expressionText(elem), ...listOf(stmt).map(statementText)])} }`,
  meter: ({name, key, stmt}) =>
    `meter ${asText(name)} { ${words([expressionText(key), ...(Array.isArray(stmt) ? stmt : [stmt ?? '']).map(statementText)])} }`,
  map: ({op, elem, data, map}) => `${asText(op)} ${asText(map)} { ${expressionText(elem)} : ${expressionText(data)} }`,
  counter: (_, content) => (typeof content === 'string' ? `counter name "${content}"` : 'counter'),
  quota: ({val, val_unit: unit, inv, used, used_unit: usedUnit}, content) =>
    typeof content === 'string'
      ? `quota name "${content}"`
      : words([
          'quota',
          inv === true ? 'over' : '',
          expressionText(val),
          asText(unit),
          used === undefined ? '' : `used ${expressionText(used)} ${asText(usedUnit)}`,
        ]),
  limit: limitText,
  log: logText,
  notrack: () => 'notrack',
  queue: fields => words(['queue', optionsText(fields)]),
  flow: ({op, flowtable}) => words(['flow', asText(op), asText(flowtable)]),
  dup: ({addr, dev}) => words(['dup to', expressionText(addr), dev === undefined ? '' : `device "${asText(dev)}"`]),
  last: () => 'last',
  'ct count': ({val, inv}) => words(['ct count', inv === true ? 'over' : '', expressionText(val)]),
  'ct helper': (_, content) => `ct helper set "${asText(content)}"`,
  'ct timeout': (_, content) => `ct timeout set "${asText(content)}"`,
  xt: ({type, name}) => `xt ${asText(type)} "${asText(name)}"`,
  tproxy: ({family, addr, port}) => words(['tproxy', asText(family), 'to', natTarget(addr, port)]),
};

function matchText({op, left, right}: Fields): string {
  const [name, operands] = onlyEntry(left);
  const [masked, masks] = listOf(operands);
  const mask = flagList(masks);
  const negation = op === '!=' ? '!=' : '';
  if (name === '&' && Array.isArray(mask))
    return words([expressionText(masked), negation, `${expressionText(flagList(right))} / ${expressionText(mask)}`]);
  const isPlain = op === 'in' || (op === '==' && !isBinary(name));
  return words([expressionText(left), isPlain ? '' : asText(op), expressionText(op === '!' ? flagList(right) : right, stylesOf(left))]);
}

/** Flags are a list, or in newer versions `{"|": […]}`. */
function flagList(value: unknown): unknown {
  const [name, flags] = onlyEntry(value);
  return name === '|' ? flags : value;
}

function natText(action: string, {family, addr, port, flags, type_flags: kinds}: Fields): string {
  const target = natTarget(addr, port);
  const printed = listOf(flags).filter(flag => flag !== 'netmap');
  const isPrefix = listOf(kinds).includes('prefix');
  return words([action, asText(family), isPrefix ? 'prefix' : '', target === '' ? '' : `to ${target}`, expressionText(printed)]);
}

function natTarget(addr: unknown, port: unknown): string {
  const address = expressionText(addr);
  if (port === undefined) return address;
  return `${typeof addr === 'string' && addr.includes(':') ? `[${address}]` : address}:${expressionText(port)}`;
}

/** Rejecting with "port unreachable" is the default and is not printed. */
function rejectText({type, expr}: Fields): string {
  if (type === undefined || expr === 'port-unreachable') return 'reject';
  return words(['reject with', asText(type), asText(expr)]);
}

function limitText(fields: Fields, content: unknown): string {
  if (typeof content === 'string') return `limit name "${content}"`;
  const {rate, per, burst, inv, rate_unit: unit, burst_unit: burstUnit} = fields;
  const isBytes = unit !== undefined && unit !== 'packets';
  const amount = isBytes ? `${expressionText(rate)} ${asText(unit)}` : expressionText(rate);
  const many =
    burst === undefined || burst === 0 || (burst === 5 && !isBytes)
      ? ''
      : `burst ${expressionText(burst)} ${isBytes ? asText(burstUnit) : 'packets'}`;
  return words(['limit rate', inv === true ? 'over' : '', `${amount}/${asText(per)}`, many]);
}

function logText({prefix, level, group, flags}: Fields): string {
  return words([
    'log',
    prefix === undefined ? '' : `prefix "${asText(prefix)}"`,
    group === undefined ? '' : `group ${expressionText(group)}`,
    level === undefined ? '' : `level ${asText(level)}`,
    flags === undefined ? '' : `flags ${expressionText(flags)}`,
  ]);
}

function optionsText(fields: Fields): string {
  return words(Object.entries(fields).map(([name, value]) => `${name} ${expressionText(value)}`));
}

function words(parts: readonly string[]): string {
  return parts.filter(part => part !== '').join(' ');
}
