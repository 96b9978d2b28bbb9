import type {AdviceCase, NodeAdvice} from './advice-case.ts';
import {atTheSwitch} from './at-the-switch.ts';
import {checkByHand} from './check-by-hand.ts';
import {fromIpvs} from './from-ipvs.ts';
import {hostPorts} from './host-ports.ts';
import {invalidPackets} from './invalid-packets.ts';
import {serviceRange} from './service-range.ts';
import {sameMode} from './same-mode.ts';
import {toNftables} from './to-nftables.ts';

/** Effects that no single packet shows: in operation, and at the moment of the switch. Empty if nothing changes. */
export function adviceOf(given: AdviceCase): readonly NodeAdvice[] {
  const parts = given.setup.config.mode.value === given.configAfter.mode.value ? ofOneMode : ofTwoModes;
  return parts.flatMap(part => part(given));
}

const ofOneMode = [serviceRange, sameMode];
const ofTwoModes = [serviceRange, invalidPackets, fromIpvs, toNftables, hostPorts, atTheSwitch, checkByHand];
