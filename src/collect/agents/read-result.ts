import {type Finding, severities} from '../../model/finding.ts';
import {type AgentResult, nodeResultVersion} from '../../model/node-result.ts';
import {type Shape, whyMalformed} from '../objects/object-shape.ts';

/** The answer of an agent. */
export interface AgentAnswer {
  readonly result: AgentResult;
  /** When it answered, by its own clock, in milliseconds since 1970. */
  readonly now: number;
  /** Why its latest check failed; null if it succeeded. */
  readonly trouble: string | null;
}

/** Reads the JSON of an agent's `/result`; a text says why it cannot be used. It is as untrusted as all data of a node. */
export function readResult(value: unknown): AgentAnswer | string {
  const version = (value as {readonly schemaVersion?: unknown} | null)?.schemaVersion;
  if (version === undefined) return 'it is no result of svc-trace agent';
  if (version !== nodeResultVersion)
    return `it is of version ${JSON.stringify(version)}, and this program reads version ${nodeResultVersion}: one of the two is older`;
  const wrong = whyMalformed(value, resultShape, '') ?? whyIncomplete(value as WrittenResult);
  return wrong ?? asAnswer(value as WrittenResult);
}

/** The form in which it is written: see `render/node-result.ts`. */
interface WrittenResult extends Omit<AgentResult, 'report' | 'judgedAt' | 'seen' | 'apiCurrentAt' | 'findings'> {
  readonly now: string;
  readonly trouble?: string;
  readonly judgedAt: string;
  readonly api: {readonly currentAt: string; readonly seen: AgentResult['seen']};
  readonly node: AgentResult['report'];
  readonly findings: readonly WrittenFinding[];
}

type WrittenRule = {readonly table: string; readonly chain: string; readonly line: number; readonly rule: string};
type WrittenFinding = Omit<Finding, 'expected' | 'actual'> & {
  readonly expected?: readonly WrittenRule[];
  readonly actual?: readonly WrittenRule[];
};

const rules: Shape = {list: {fields: {table: 'string', chain: 'string', line: 'number', rule: 'string'}}};
const setting: Shape = {fields: {value: 'string', source: 'string'}};
const serviceName: Shape = {fields: {namespace: 'string', name: 'string'}};

const findingFields: Readonly<Record<string, Shape>> = {
  ...{code: 'string', name: 'string', severity: 'string', message: 'string', remedy: 'string', command: 'string', endpoints: 'number'},
  ...{node: 'string', family: 'string', endpoint: 'string', service: serviceName},
  port: {fields: {name: 'string', protocol: 'string', port: 'number'}},
  entry: {fields: {kind: 'string', address: 'string', port: 'number'}},
  ...{expected: rules, actual: rules},
  affects: {list: {fields: {namespace: 'string', name: 'string', ports: {list: 'string'}}}},
  senders: {
    fields: {
      ...{text: 'string', pods: {list: 'string'}},
      example: {fields: {family: 'string', source: 'string', destination: 'string', port: 'number', protocol: 'string'}},
    },
  },
};

const resultShape: Shape = {
  fields: {
    tool: {fields: {name: 'string', version: 'string'}},
    ...{now: 'string', judgedAt: 'string', trouble: 'string', seconds: 'number', intervalSeconds: 'number'},
    api: {fields: {currentAt: 'string', seen: {fields: {services: 'string', endpointSlices: 'string'}}}},
    node: {
      fields: {
        ...{
          name: 'string',
          status: 'string',
          reason: 'string',
          proxyMode: 'string',
          kubeProxyVersion: 'string',
          backend: 'string',
          via: 'string',
        },
        ...{families: {list: 'string'}, rules: 'number', chains: 'number', settings: {map: setting}},
        notRead: {list: {fields: {file: 'string', reason: 'string'}}},
      },
    },
    proxy: {fields: {version: {fields: {text: 'string', minor: 'number', patch: 'number'}}, gates: {map: 'boolean'}}},
    findings: {list: {fields: findingFields}},
    problems: {list: {fields: {node: 'string', message: 'string', remedy: 'string', isMinor: 'boolean'}}},
  },
};

/** A missing field has no shape. */
function whyIncomplete({tool, api, node, findings, problems, now, judgedAt, intervalSeconds, seconds}: WrittenResult): string | null {
  const needed = {tool, api, node, findings, problems, now, judgedAt, intervalSeconds, seconds, 'api.seen': api?.seen};
  const missing = Object.entries(needed).find(([, value]) => value === undefined);
  if (missing !== undefined) return `it has no ${missing[0]}`;
  const times = {now, judgedAt, 'api.currentAt': api.currentAt};
  const invalid = Object.entries(times).find(([, text]) => Number.isNaN(Date.parse(text)));
  if (invalid !== undefined) return `its ${invalid[0]} is no time`;
  if (!['checked', 'unread', 'unsupported'].includes(node.status)) return 'its node.status is unknown';
  if (typeof node.name !== 'string' || !Array.isArray(node.families) || node.settings === undefined) return 'its node is not whole';
  const whole = findings.every(({code, severity, message}) => code && severities.includes(severity) && message);
  return whole ? null : 'it has a finding without code, severity or message';
}

function asAnswer({
  now,
  trouble,
  judgedAt,
  api,
  node,
  findings,
  proxy,
  tool,
  problems,
  seconds,
  intervalSeconds,
}: WrittenResult): AgentAnswer {
  return {
    now: Date.parse(now),
    trouble: trouble ?? null,
    result: {
      ...{tool, problems, seconds, intervalSeconds, report: node, proxy: proxy ?? null},
      ...{judgedAt: Date.parse(judgedAt), seen: api.seen, apiCurrentAt: Date.parse(api.currentAt)},
      findings: findings.map(asFinding),
    },
  };
}

/** Only the fields that are read: an agent cannot mark a finding as known. */
function asFinding(written: WrittenFinding): Finding {
  const fields = Object.entries(written).filter(([name]) => Object.hasOwn(findingFields, name));
  const {entry, expected, actual, ...read} = Object.fromEntries(fields) as unknown as WrittenFinding;
  const texts = (written: readonly WrittenRule[]) => written.map(({table, chain, line, rule}) => ({table, chain, line, text: rule}));
  return {
    ...read,
    // While reading, a null address became a missing field.
    ...(entry === undefined ? {} : {entry: {...entry, address: entry.address ?? null}}),
    ...(expected === undefined ? {} : {expected: texts(expected)}),
    ...(actual === undefined ? {} : {actual: texts(actual)}),
  };
}
