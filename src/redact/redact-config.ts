import {dump} from 'js-yaml';
import {attempt, readJson} from '../parse/attempt.ts';
import {readYaml} from '../parse/yaml-text.ts';
import type {Replacements} from './replacements.ts';
import {treatAddress} from './treatment.ts';

/** Settings whose values are words of Kubernetes, or interface names; by the lower-case name of the field or flag. */
const keptSettings = new Set(
  `
  kind apiversion mode proxy-mode detectlocalmode detect-local-mode bridgeinterface pod-bridge-interface interfacenameprefix
  pod-interface-name-prefix scheduler ipvs-scheduler format feature-gates acceptcontenttypes contenttype proxy
`
    .trim()
    .split(/\s+/),
);

/** Replaces a file that cannot be parsed by another one that cannot be parsed. */
export const unreadable = '{redacted: [';

/** `/configz`: a JSON document. */
export function redactConfigz(text: string, replacements: Replacements): string {
  const config = readJson(text);
  return config === undefined ? unreadable : JSON.stringify(redactSettings(config, '', replacements));
}

/** A KubeProxyConfiguration in YAML or JSON. Comments are left out. */
export function redactConfigText(text: string, replacements: Replacements): string {
  const config = attempt(() => readYaml(text));
  return config instanceof Error ? unreadable : dump(redactSettings(config, '', replacements), {lineWidth: -1});
}

/** The words of a command line or a script: flags stay, and so do values that are settings. */
export function redactArguments(args: readonly unknown[], replacements: Replacements): readonly string[] {
  let flag = '';
  return args.map(arg =>
    String(arg).replace(/[^\s"']+/g, word => {
      const [, name, value] = /^--?([a-zA-Z][\w-]*)(?:=(.*))?$/s.exec(word) ?? [];
      const before = flag;
      flag = name !== undefined && value === undefined ? name : '';
      if (name === undefined) return redactWord(word, before, replacements);
      return value === undefined ? word : `${word.slice(0, word.indexOf('='))}=${redactSetting(value, name, replacements)}`;
    }),
  );
}

/** A word that is not a flag: the value of the preceding flag, or part of the command. k3s passes flags on as values of its own. */
function redactWord(word: string, flag: string, replacements: Replacements): string {
  const [, inner, value] = flag === 'kube-proxy-arg' ? (/^([\w-]+)=(.*)$/s.exec(word) ?? []) : [];
  if (inner !== undefined && value !== undefined) return `${inner}=${redactSetting(value, inner, replacements)}`;
  if (flag !== '') return redactSetting(word, flag, replacements);
  if (/^(?:exec|kube-proxy|server|agent|[\d>&|;\\]+)$/.test(word)) return word;
  return word.endsWith('/kube-proxy') ? '/usr/local/bin/kube-proxy' : replacements.names.replace(word);
}

function redactSettings(value: unknown, name: string, replacements: Replacements): unknown {
  if (typeof value === 'string') return redactSetting(value, name, replacements);
  if (Array.isArray(value)) return value.map(item => redactSettings(item, name, replacements));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, redactSettings(item, key, replacements)]));
}

/** Numbers, durations and `$(NODE_NAME)` stay. */
function redactSetting(text: string, name: string, replacements: Replacements): string {
  if (keptSettings.has(name.toLowerCase())) return text;
  if (/^(?:-?\d+(?:\.\d+)?|(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+|true|false|\$\([A-Z_]+\)|)$/.test(text)) return text;
  return text
    .split(',')
    .map(part => (part === 'primary' ? part : treatAddress(part, replacements)))
    .join(',');
}
