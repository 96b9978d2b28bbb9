import type {Check} from './check.ts';
import {noReadyEndpoint} from './st101-no-ready-endpoint.ts';
import {portWithoutEndpoint} from './st102-port-without-endpoint.ts';
import {duplicateEndpoint} from './st103-duplicate-endpoint.ts';
import {hintsIgnored} from './st104-hints-ignored.ts';
import {addressFamilyMismatch} from './st105-address-family-mismatch.ts';
import {nodeAddressAsExternalIP} from './st106-node-address-as-external-ip.ts';
import {notServedByKubeProxy} from './st107-not-served-by-kube-proxy.ts';
import {localPolicyNowhereLocal} from './st108-local-policy-nowhere-local.ts';
import {endpointOnUnknownNode} from './st109-endpoint-on-unknown-node.ts';
import {nodePortCollision} from './st110-node-port-collision.ts';
import {serviceNotProgrammed} from './st201-service-not-programmed.ts';
import {missingEndpoint} from './st202-missing-endpoint.ts';
import {staleEndpoint} from './st203-stale-endpoint.ts';
import {wrongEndpointAddress} from './st204-wrong-endpoint-address.ts';
import {staleService} from './st205-stale-service.ts';
import {missingEntry} from './st206-missing-entry.ts';
import {trafficPolicyMismatch} from './st207-traffic-policy-mismatch.ts';
import {unevenBalance} from './st208-uneven-balance.ts';
import {sessionAffinityMismatch} from './st209-session-affinity-mismatch.ts';
import {sourceRangesMismatch} from './st210-source-ranges-mismatch.ts';
import {masqueradeMismatch} from './st211-masquerade-mismatch.ts';
import {missingReject} from './st212-missing-reject.ts';
import {unexpectedReject} from './st213-unexpected-reject.ts';
import {brokenJump} from './st214-broken-jump.ts';
import {orphanChain} from './st215-orphan-chain.ts';
import {unexpectedRule} from './st216-unexpected-rule.ts';
import {missingRule} from './st217-missing-rule.ts';
import {duplicateRule} from './st218-duplicate-rule.ts';
import {healthCheckPortBlocked} from './st219-health-check-port-blocked.ts';
import {servicesChainNotHooked} from './st301-services-chain-not-hooked.ts';
import {postroutingBroken} from './st302-postrouting-broken.ts';
import {forwardBlocked} from './st303-forward-blocked.ts';
import {nodePortsUnreachable} from './st304-node-ports-unreachable.ts';
import {noServiceRules} from './st305-no-service-rules.ts';
import {canaryMissing} from './st306-canary-missing.ts';
import {entryTakenByOtherRule} from './st401-entry-intercepted.ts';
import {droppedByOtherRule} from './st402-dropped-by-other-rule.ts';
import {undecidedPath} from './st403-undecided-path.ts';
import {twoBackends} from './st501-two-backends.ts';
import {otherModeLeftovers} from './st502-other-mode-leftovers.ts';
import {modeMismatch} from './st503-mode-mismatch.ts';
import {clusterCidrMismatch} from './st504-cluster-cidr-mismatch.ts';
import {kubeProxyNotSyncing} from './st505-kube-proxy-not-syncing.ts';
import {dumpUnreliable} from './st506-dump-unreliable.ts';
import {nodeNameMismatch} from './st507-node-name-mismatch.ts';
import {staleConntrack} from './st508-stale-conntrack.ts';
import {zoneUnknownToKubeProxy} from './st509-zone-unknown-to-kube-proxy.ts';
import {serviceNameTooLong} from './st510-service-name-too-long.ts';
import {localhostNodePortsStuck} from './st511-localhost-node-ports-stuck.ts';
import {modeNotSet} from './st512-mode-not-set.ts';
import {nodeNotRead} from './st901-node-not-read.ts';
import {familyNotRead} from './st902-family-not-read.ts';
import {noKubeProxy} from './st903-no-kube-proxy.ts';
import {changedWhileLooking} from './st904-changed-while-looking.ts';

/** All checks, in the order of their codes. A new check is one file and one line here. */
export const checks = [
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
  serviceNotProgrammed,
  missingEndpoint,
  staleEndpoint,
  wrongEndpointAddress,
  staleService,
  missingEntry,
  trafficPolicyMismatch,
  unevenBalance,
  sessionAffinityMismatch,
  sourceRangesMismatch,
  masqueradeMismatch,
  missingReject,
  unexpectedReject,
  brokenJump,
  orphanChain,
  unexpectedRule,
  missingRule,
  duplicateRule,
  healthCheckPortBlocked,
  servicesChainNotHooked,
  postroutingBroken,
  forwardBlocked,
  nodePortsUnreachable,
  noServiceRules,
  canaryMissing,
  entryTakenByOtherRule,
  droppedByOtherRule,
  undecidedPath,
  twoBackends,
  otherModeLeftovers,
  modeMismatch,
  clusterCidrMismatch,
  kubeProxyNotSyncing,
  dumpUnreliable,
  nodeNameMismatch,
  staleConntrack,
  zoneUnknownToKubeProxy,
  serviceNameTooLong,
  localhostNodePortsStuck,
  modeNotSet,
  nodeNotRead,
  familyNotRead,
  noKubeProxy,
  changedWhileLooking,
] as const satisfies readonly Check[];

export type FindingCode = (typeof checks)[number]['code'];
