import {Flags} from '@oclif/core';

/** Objects that are not applied yet. */
export const manifestFlags = {
  filename: Flags.string({
    char: 'f',
    description: 'read Services, EndpointSlices and Nodes from a manifest, - for standard input (repeatable)',
    multiple: true,
    multipleNonGreedy: true,
    helpValue: 'FILE',
    helpGroup: 'MANIFESTS',
  }),
  endpoint: Flags.string({
    description: 'an endpoint of the Services of -f that have no EndpointSlice (repeatable)',
    multiple: true,
    multipleNonGreedy: true,
    helpValue: 'IP[:PORT][@NODE]',
    helpGroup: 'MANIFESTS',
  }),
};
