import {nodeObject} from '../expect/api-index.ts';
import {leavesModeToDefault} from '../expect/proxy-config.ts';
import {isKernelTooOldForNftables} from '../model/node/kernel-version.ts';
import type {Observation} from '../model/finding.ts';
import {configMapPlaces} from '../model/config-map-places.ts';
import {commandLine} from '../model/text/command-line.ts';
import type {Check} from './check.ts';
import {run} from './commands/service-commands.ts';

export const modeNotSet: Check<'ST512'> = {
  code: 'ST512',
  name: 'mode-not-set',
  severity: 'info',
  summary: 'The proxy mode is not set, and the kernel is too old for nftables mode, the default from 1.40 on',
  remedy: 'Set `mode: iptables` in the configuration of kube-proxy, or upgrade the kernel of the node to 5.13 or newer.',
  *node({node, api}) {
    const kernel = nodeObject(api, node.name)?.status?.nodeInfo?.kernelVersion ?? '';
    if (isKernelTooOldForNftables(kernel) !== true) return;
    const source = leavesModeToDefault(node, api);
    if (source === null) return;
    yield {
      node: node.name,
      message: `the proxy mode is not set (${source}), and kernel ${kernel} of ${node.name} is older than 5.13: kube-proxy 1.40 and later will not start on it`,
      ...editSource(source),
    };
  },
};

/** Edits the ConfigMap, if the settings come from one. */
function editSource(source: string): Pick<Observation, 'command'> {
  const place = configMapPlaces.find(({name}) => source === `ConfigMap ${name}`);
  return place === undefined ? {} : run(commandLine`kubectl -n ${place.namespace} edit ${`configmap/${place.name}`}`);
}
