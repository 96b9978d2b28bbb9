import {cpSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {capturePath} from './fixtures.ts';

/** Between the marks: what a shell would run, end, expand or read as several words. */
export function hostileName(what: string): string {
  return `Xq${what}$(canary)\`canary\`;canary;"it's\\'&canary|größer東 *~!{a,b}#qX`;
}

export const names = {'node-a': hostileName('node'), shop: hostileName('shop'), web: hostileName('web'), nobody: hostileName('label')};
/** With a dot, as that of a VLAN. */
const device = `${hostileName('dev')}.100`;

/** A capture with a fault, written into `folder`, in which a node, Services, labels, pods, containers and interfaces have such names. */
export function writeHostileBundle(capture: string, folder: string, podName = hostileName('pod')): string {
  const bundle = join(folder, capture.replaceAll('/', '-'));
  cpSync(capturePath(capture), bundle, {recursive: true, dereference: true});
  for (const file of readdirSync(join(bundle, 'api'))
    .filter(name => name.endsWith('.json'))
    .map(name => join(bundle, 'api', name)))
    writeFileSync(file, JSON.stringify(renamed(JSON.parse(readFileSync(file, 'utf8')))));
  const node = join(bundle, 'nodes', names['node-a']);
  renameSync(join(bundle, 'nodes/node-a'), node);
  const config = join(node, 'kube-proxy-config.yaml');
  writeFileSync(
    config,
    readFileSync(config, 'utf8').replaceAll('node-a', () => JSON.stringify(names['node-a'])),
  );
  addPods(join(bundle, 'api/pods.json'), podName);
  const up = {flags: ['UP', 'LOWER_UP'], promiscuity: 0, mtu: 1500};
  const port = {info_kind: 'veth', info_slave_kind: 'bridge', info_slave_data: {hairpin: false}};
  const facts = {
    'links.json': [
      {...up, ifname: device, mtu: 900},
      {...up, ifname: `${device}0`, linkinfo: {info_kind: 'bridge', info_data: {}}},
      {...up, ifname: `${device}1`, master: `${device}0`, link_netnsid: 0, linkinfo: port},
    ],
    'routes.json': [
      {dst: 'default', gateway: '172.18.0.1', dev: device},
      {dst: '172.18.0.0/16', dev: device, prefsrc: '172.18.0.11'},
      {dst: '10.244.11.0/24', dev: `${device}0`, prefsrc: '10.244.11.1'},
    ],
    'addresses.json': [{ifname: device, addr_info: [{family: 'inet', local: '172.18.0.11', prefixlen: 16}]}],
    'netconf.json': ['all', device, `${device}0`].map(name => ({
      ...{family: 'inet', interface: name, forwarding: name === 'all', rp_filter: 'strict'},
    })),
  };
  for (const [file, content] of Object.entries(facts)) writeFileSync(join(node, file), JSON.stringify(content));
  writeFileSync(
    join(node, 'sysctls'),
    'net.ipv4.ip_forward = 1\nnet.ipv4.conf.all.rp_filter = 0\nnet.bridge.bridge-nf-call-iptables = 1\nnet.bridge.bridge-nf-call-ip6tables = 1\nnet.ipv6.conf.all.forwarding = 1\n',
  );
  return bundle;
}

function renamed(value: unknown): unknown {
  if (typeof value === 'string') return Object.entries(names).find(([name]) => name === value)?.[1] ?? value;
  if (Array.isArray(value)) return value.map(renamed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, renamed(inner)]));
}

/** kube-proxy's pods. */
function addPods(file: string, name: string): void {
  const found = statSync(file, {throwIfNoEntry: false}) === undefined ? [] : JSON.parse(readFileSync(file, 'utf8')).items;
  const pod = (node: string, containers: readonly string[]) => ({
    metadata: {namespace: 'kube-system', name: `${name}${containers.length}`, labels: {'k8s-app': 'kube-proxy'}},
    spec: {nodeName: node, hostNetwork: true, containers: containers.map(each => ({name: each, image: ''}))},
    status: {phase: 'Running', conditions: [{type: 'Ready', status: 'True'}]},
  });
  const pods = [pod(names['node-a'], [hostileName('container')]), pod('node-b', ['kube-proxy', hostileName('other')])];
  writeFileSync(file, JSON.stringify({items: [...found, ...pods]}));
}
