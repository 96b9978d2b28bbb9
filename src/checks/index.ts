import {compareText} from '../model/text/compare-text.ts';
import type {Check} from './check.ts';
import {factsChecks} from './kernel/facts-checks.ts';
import {noReadyEndpoint} from './objects/st101-no-ready-endpoint.ts';
import {portWithoutEndpoint} from './objects/st102-port-without-endpoint.ts';
import {duplicateEndpoint} from './objects/st103-duplicate-endpoint.ts';
import {hintsIgnored} from './objects/st104-hints-ignored.ts';
import {addressFamilyMismatch} from './objects/st105-address-family-mismatch.ts';
import {nodeAddressAsExternalIP} from './objects/st106-node-address-as-external-ip.ts';
import {notServedByKubeProxy} from './objects/st107-not-served-by-kube-proxy.ts';
import {localPolicyNowhereLocal} from './objects/st108-local-policy-nowhere-local.ts';
import {endpointOnUnknownNode} from './objects/st109-endpoint-on-unknown-node.ts';
import {nodePortCollision} from './objects/st110-node-port-collision.ts';
import {nodesExcludedFromLoadBalancers} from './objects/st111-nodes-excluded-from-load-balancers.ts';
import {targetPortNotDeclared} from './objects/st112-target-port-not-declared.ts';
import {twoBackends} from './st501-two-backends.ts';
import {otherModeLeftovers} from './st502-other-mode-leftovers.ts';
import {modeMismatch} from './st503-mode-mismatch.ts';
import {kubeProxyNotSyncing} from './st505-kube-proxy-not-syncing.ts';
import {dumpUnreliable} from './st506-dump-unreliable.ts';
import {staleConntrack} from './st508-stale-conntrack.ts';
import {serviceNameTooLong} from './st510-service-name-too-long.ts';
import {localhostNodePortsStuck} from './st511-localhost-node-ports-stuck.ts';
import {modeNotSet} from './st512-mode-not-set.ts';
import {removedEndpointInUse} from './st513-removed-endpoint-in-use.ts';
import {endpointGetsNothing} from './st514-endpoint-gets-nothing.ts';
import {oneEndpointGetsAll} from './st515-one-endpoint-gets-all.ts';
import {twoProxies} from './st516-two-proxies.ts';
import {tunnelMasqueraded} from './kernel/st612-tunnel-masqueraded.ts';
import {nodeNotRead} from './st901-node-not-read.ts';
import {familyNotRead} from './st902-family-not-read.ts';
import {noKubeProxy} from './st903-no-kube-proxy.ts';
import {changedWhileLooking} from './st904-changed-while-looking.ts';
import {symptomChecks} from './symptom-checks.ts';

const all = [
  noReadyEndpoint,
  portWithoutEndpoint,
  duplicateEndpoint,
  hintsIgnored,
  addressFamilyMismatch,
  nodeAddressAsExternalIP,
  notServedByKubeProxy,
  localPolicyNowhereLocal,
  endpointOnUnknownNode,
  nodePortCollision,
  nodesExcludedFromLoadBalancers,
  targetPortNotDeclared,
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
  tunnelMasqueraded,
  nodeNotRead,
  familyNotRead,
  noKubeProxy,
  changedWhileLooking,
  ...symptomChecks,
  ...factsChecks,
] as const satisfies readonly Check[];

type FindingCode = (typeof all)[number]['code'];

/** All checks, sorted by code. A new check is a row of symptom-checks.ts, or one file and one line here. */
export const checks: readonly Check<FindingCode>[] = all.toSorted((a, b) => compareText(a.code, b.code));
