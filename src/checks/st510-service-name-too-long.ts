import {someOf} from '../model/text/some-of.ts';
import {overlongNames, type OverlongName} from '../expect/nftables/overlong-names.ts';
import {families} from '../model/family.ts';
import type {Observation} from '../model/finding.ts';
import type {Check} from './check.ts';
import {editService} from './commands/service-commands.ts';
import {nameOf, ofPort} from './service-observation.ts';

export const serviceNameTooLong: Check<'ST510'> = {
  code: 'ST510',
  name: 'service-name-too-long',
  severity: 'error',
  summary: 'The name of a Service port is longer than nft accepts, and kube-proxy cannot sync a family because of it',
  remedy: 'Upgrade kube-proxy to 1.37, or give the Service or its port a shorter name: namespace, name and port together 126 characters.',
  *node(context) {
    const {node, config} = context;
    if (config.mode.value !== 'nftables') return;
    const names = overlongNames(context);
    for (const family of families) {
      const own = names.filter(name => name.family === family);
      const blocking = own.filter(({blocksSync}) => blocksSync);
      const [first] = blocking.length > 0 ? blocking : own;
      if (first !== undefined)
        yield {node: node.name, ...ofPort(first.port), ...described(blocking, own), ...editService(nameOf(first.port.object))};
    }
  },
};

function described(blocking: readonly OverlongName[], all: readonly OverlongName[]): Pick<Observation, 'message' | 'severity'> {
  const listed = (names: readonly OverlongName[]): string =>
    someOf(
      names.map(({port: {servicePortName}}) => `${servicePortName} (${servicePortName.length} bytes)`),
      {max: 3},
    );
  const [{family}] = all as readonly [OverlongName];
  if (blocking.length === 0)
    return {
      severity: 'warning',
      message: `as soon as ${listed(all)} has no endpoint that this node may use, kube-proxy cannot write any change of ${family} any more: nft accepts comments of 128 bytes`,
    };
  return {
    message: `kube-proxy cannot write any change of ${family}: ${listed(blocking)} has no endpoint that this node may use, and nft refuses its name as a comment (at most 128 bytes)`,
  };
}
