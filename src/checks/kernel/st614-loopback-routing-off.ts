import {nodeContext} from '../../expect/node-context.ts';
import {routesLoopback, sysctlNumber} from '../../model/node/node-facts.ts';
import type {Endpoint} from '../../model/endpoint.ts';
import {commandLine, plural, someOf} from '../../model/text.ts';
import {check} from '../catalog.ts';
import {run} from '../commands/commands.ts';
import {deviceTo, entriesOnNode} from './node-paths.ts';

const name = 'net.ipv4.conf.all.route_localnet';

/** Follows `NewProxier` of the iptables mode, which sets the switch when it starts and never looks at it again. */
export const loopbackRoutingOff = check('ST614', {
  *node(context) {
    const {config, facts} = context;
    if (config.mode.value !== 'iptables' || !context.families.includes('IPv4')) return;
    if (sysctlNumber(context.facts.network, name) !== 0) return;
    if (!nodeContext('IPv4', config, facts, {nfacct: false, clearsMark: null, dropsInvalid: null}).localhostNodePorts) return;
    const network = context.facts.network;
    const isLost = ({address, ready}: Endpoint): boolean => ready && routesLoopback(network, deviceTo(context, address)) !== true;
    const lost = entriesOnNode(context, 'IPv4').flatMap(({port, set}) => {
      const endpoints = port.nodePort > 0 ? set.endpoints.filter(isLost) : [];
      return endpoints.length === 0 ? [] : [{port, behind: endpoints.map(({address}) => deviceTo(context, address))}];
    });
    const nodePorts = [...new Set(lost.map(({port}) => port.nodePort))].sort((a, b) => a - b);
    if (nodePorts.length === 0) return;
    const behind = new Set(lost.flatMap(one => one.behind));
    const off = [...behind]
      .filter(dev => dev !== null && routesLoopback(network, dev) === false)
      .map(String)
      .sort();
    const isKnown = off.length === behind.size;
    const which = isKnown
      ? `, where they reach an endpoint behind ${someOf(off)}, whose own switch is 0 too`
      : ', unless the interface to the endpoint has the switch of its own';
    const message = `${name} is 0, and kube-proxy sets it to 1: on the node, connections to 127.0.0.1 at ${plural(nodePorts.length, 'node port')} (${someOf(nodePorts.map(String))}) hang${which}`;
    yield {family: 'IPv4', message, ...run(commandLine`sysctl -w ${name}=1`)};
  },
});
