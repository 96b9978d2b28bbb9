import {Errors, Flags} from '@oclif/core';
import {errorText} from '../../model/text.ts';
import {readTextFile} from '../../collect/text-file.ts';
import {kindOfConfig} from '../../parse/kube-proxy/kube-proxy-config.ts';
import {escapeText} from '../../render/terminal-text.ts';
import {repeatable} from './flags.ts';

/** Objects that are not applied yet. */
export const manifestFlags = {
  filename: Flags.string({
    char: 'f',
    description: 'read Services, EndpointSlices and Nodes from a manifest, - for standard input (repeatable)',
    ...repeatable,
    helpValue: 'FILE',
    helpGroup: 'MANIFESTS',
  }),
  endpoint: Flags.string({
    description: 'an endpoint of the Services of -f that have no EndpointSlice (repeatable)',
    ...repeatable,
    helpValue: 'IP[:PORT][@NODE]',
    helpGroup: 'MANIFESTS',
  }),
};

/** `--config FILE`. */
export function configFlag(description: string) {
  return Flags.string({description, helpValue: 'FILE', helpGroup: 'KUBE-PROXY'});
}

/** The text of a KubeProxyConfiguration. Throws a CLIError (exit 2). */
export function readConfigFile(file: string): string {
  const {text, kind} = readConfig(file);
  if (kind === configKind) return text;
  const found = kind === null ? 'it names no kind' : `its kind is ${kind}`;
  throw new Errors.CLIError(escapeText(`--config ${file} is not a ${configKind}: ${found}`), {exit: 2});
}

/** kube-proxy itself starts with nothing else. */
const configKind = 'KubeProxyConfiguration';

function readConfig(file: string): {readonly text: string; readonly kind: string | null} {
  try {
    const text = readTextFile(file);
    return {text, kind: kindOfConfig(text)};
  } catch (error) {
    throw new Errors.CLIError(escapeText(`cannot read ${file}: ${errorText(error).split('\n', 1)[0]}`), {exit: 2});
  }
}
