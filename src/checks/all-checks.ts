import {compareText} from '../model/text.ts';
import type {Check} from './check-types.ts';
import {factsChecks} from './kernel/facts-checks.ts';
import {duplicateEndpoint, noReadyEndpoint, portWithoutEndpoint} from './objects/ready-endpoints.ts';
import {
  externalIPWithRanges,
  headlessLabelWithClusterIP,
  rangesOfOneFamily,
  addressFamilyMismatch,
  nodeAddressAsExternalIP,
  notServedByKubeProxy,
} from './objects/service-addresses.ts';
import {hintsIgnored, nodesExcludedFromLoadBalancers} from './objects/endpoints-by-place.ts';
import {endpointIsClusterIP, endpointOnUnknownNode, localPolicyNowhereLocal} from './objects/local-endpoints.ts';
import {nodePortCollision, targetPortNotDeclared} from './objects/node-ports-and-target-ports.ts';
import {policySeesNode} from './objects/st113-policy-sees-node.ts';
import {modeMismatch, modeNotSet, otherModeLeftovers, twoBackends} from './two-modes.ts';
import {kubeProxyNotSyncing, noKubeProxy, twoProxies} from './kube-proxy.ts';
import {changedWhileLooking, dumpUnreliable, familyNotRead, nodeNotRead} from './unread.ts';
import {staleConntrack} from './st508-stale-conntrack.ts';
import {localhostNodePortsStuck, serviceNameTooLong} from './nftables-checks.ts';
import {endpointGetsNothing, oneEndpointGetsAll, removedEndpointInUse} from './traffic-checks.ts';
import {mtuDiffers} from './kernel/st613-mtu-differs.ts';
import {tunnelMasqueraded} from './kernel/st612-tunnel-masqueraded.ts';
import {noRouteToPods} from './kernel/st611-no-route-to-pods.ts';
import {serviceRangeOverlap, addressConflict} from './st118-address-overlaps.ts';
import {loopbackRoutingOff} from './kernel/st614-loopback-routing-off.ts';
import {apiNewer, knownBug, limitOfMode, podAddressLost, podsNotRecognized, settingBreaksPromise} from './promise-checks.ts';
import {ciliumChecks} from './cilium-checks.ts';
import {symptomChecks} from './symptom-checks.ts';

const all: readonly Check[] = [
  noReadyEndpoint,
  portWithoutEndpoint,
  duplicateEndpoint,
  hintsIgnored,
  addressFamilyMismatch,
  nodeAddressAsExternalIP,
  notServedByKubeProxy,
  localPolicyNowhereLocal,
  endpointOnUnknownNode,
  endpointIsClusterIP,
  nodePortCollision,
  nodesExcludedFromLoadBalancers,
  targetPortNotDeclared,
  policySeesNode,
  rangesOfOneFamily,
  externalIPWithRanges,
  headlessLabelWithClusterIP,
  serviceRangeOverlap,
  addressConflict,
  twoBackends,
  otherModeLeftovers,
  modeMismatch,
  kubeProxyNotSyncing,
  dumpUnreliable,
  staleConntrack,
  serviceNameTooLong,
  localhostNodePortsStuck,
  modeNotSet,
  removedEndpointInUse,
  endpointGetsNothing,
  oneEndpointGetsAll,
  twoProxies,
  noRouteToPods,
  tunnelMasqueraded,
  mtuDiffers,
  loopbackRoutingOff,
  settingBreaksPromise,
  podsNotRecognized,
  knownBug,
  limitOfMode,
  apiNewer,
  podAddressLost,
  nodeNotRead,
  familyNotRead,
  noKubeProxy,
  changedWhileLooking,
  ...symptomChecks,
  ...factsChecks,
  ...ciliumChecks,
];

/** All checks, sorted by code. A new check is a row of catalog.ts, and one of symptom-checks.ts or one file and one line here. */
export const checks: readonly Check[] = all.toSorted((a, b) => compareText(a.code, b.code));
