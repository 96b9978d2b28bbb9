import {wordSet} from './known-words.ts';
import {dump} from 'js-yaml';
import {attempt, readJson} from '../parse/attempt.ts';
import {readYaml} from '../parse/yaml-text.ts';
import {type Replacements, treatAddress, treat, type Treatment} from './replacements.ts';

/** Settings that name an interface, or the beginning of such names; by the lower-case name of the field or flag. */
const interfaceSettings = new Set(['bridgeinterface', 'pod-bridge-interface', 'interfacenameprefix', 'pod-interface-name-prefix']);

/** The fields of a KubeProxyConfiguration, its feature gates, and the flags of kube-proxy and k3s, in lower case. Other keys are replaced. */
const knownSettings = wordSet(`
  kind apiversion kubeproxy.config.k8s.io componentconfig clientconnection kubeconfig acceptcontenttypes contenttype qps burst logging format
  flushfrequency verbosity options text json infobuffersize splitstream vmodule hostnameoverride bindaddress healthzbindaddress metricsbindaddress
  bindaddresshardfail enableprofiling showhiddenmetricsforversion mode iptables ipvs nftables masqueradebit masqueradeall localhostnodeports
  syncperiod minsyncperiod scheduler excludecidrs strictarp tcptimeout tcpfintimeout udptimeout winkernel networkname sourcevip enabledsr
  roothnsendpointname forwardhealthcheckvip detectlocalmode detectlocal bridgeinterface interfacenameprefix clustercidr clustercidrs
  nodeportaddresses oomscoreadj conntrack maxpercore min tcpestablishedtimeout tcpclosewaittimeout tcpbeliberal udpstreamtimeout max
  configsyncperiod portrange linux windows featuregates master resourcecontainer udpidletimeout cleanupandexit cleanupipvs writeconfigto
  configfile runasservice nodeipoverride

  endpointslice endpointsliceproxying endpointslicenodename proxyterminatingendpoints prefersametrafficdistribution topologyawarehints
  servicetrafficdistribution servicetopology ipv6dualstack nftablesproxymode kubeproxydrainingterminatingnodes
  kubeproxynftableslocalhostnodeports nftablesdropunallocatedclusterips minimizeiptablesrestore loadbalanceripmode
  multicidrserviceallocator sctpsupport supportipvsproxymode serviceloadbalancerclass serviceinternaltrafficpolicy mixedprotocollbservice
  serviceiptstaticsubrange kubeproxynftables allalpha allbeta winoverlay windsr

  bind-address bind-address-hard-fail boot-id-file cleanup cleanup-ipvs cluster-cidr config config-sync-period conntrack-max-per-core
  conntrack-min conntrack-tcp-be-liberal conntrack-tcp-timeout-close-wait conntrack-tcp-timeout-established conntrack-udp-timeout
  conntrack-udp-timeout-stream conntrack-max detect-local-mode feature-gates healthz-bind-address healthz-port help hostname-override
  init-only iptables-localhost-nodeports iptables-masquerade-bit iptables-min-sync-period iptables-sync-period ipvs-exclude-cidrs
  ipvs-min-sync-period ipvs-scheduler ipvs-strict-arp ipvs-sync-period ipvs-tcp-timeout ipvs-tcpfin-timeout ipvs-udp-timeout
  kube-api-burst kube-api-content-type kube-api-qps kubeconfig log-flush-frequency log_flush_frequency logging-format logtostderr
  alsologtostderr log-dir log-file stderrthreshold machine-id-file masquerade-all metrics-bind-address metrics-port nodeport-addresses
  oom-score-adj pod-bridge-interface pod-interface-name-prefix profiling proxy-mode proxy-port-range show-hidden-metrics-for-version
  udp-timeout v version vmodule write-config-to nodeip-override
  server agent disable-kube-proxy kube-proxy-arg cluster-init cluster-dns service-cidr service-node-port-range flannel-backend flannel-iface
  flannel-ipv6-masq node-ip node-external-ip node-name node-label node-taint tls-san disable disable-network-policy disable-cloud-controller
  disable-helm-controller kubelet-arg kube-apiserver-arg kube-controller-manager-arg kube-cloud-controller-manager-arg
  kube-scheduler-arg etcd-arg data-dir token token-file snapshotter docker container-runtime-endpoint pause-image private-registry
  selinux write-kubeconfig write-kubeconfig-mode https-listen-port advertise-address advertise-port egress-selector-mode datastore-endpoint
  prefer-bundled-bin cni protect-kernel-defaults debug log alsologtostderr
`);

/** Words of Kubernetes that settings have as values. */
const knownValues = wordSet(`
  KubeProxyConfiguration kubeproxy.config.k8s.io/v1alpha1 iptables ipvs nftables userspace kernelspace ClusterCIDR NodeCIDR
  BridgeInterface InterfaceNamePrefix text json primary application/vnd.kubernetes.protobuf application/json rr wrr lc wlc lblc lblcr dh
  sh sed nq fo ovf mh twos vxlan host-gw wireguard-native none
`);

/** Replaces a file that cannot be parsed by another one that cannot be parsed. */
export const unreadable = '{redacted: [';

/** What is no JSON stays unusable. */
export function redactJson(treatment: Treatment): (text: string, replacements: Replacements) => string {
  return (text, replacements) => {
    const value = readJson(text);
    return value === undefined ? unreadable : `${JSON.stringify(treat(value, treatment, replacements))}\n`;
  };
}

/** `/configz`: a JSON document. */
export function redactConfigz(text: string, replacements: Replacements): string {
  const config = readJson(text);
  return config === undefined ? unreadable : JSON.stringify(redactSettings(config, '', replacements));
}

/** A KubeProxyConfiguration in YAML or JSON. Comments are left out. */
export function redactConfigText(text: string, replacements: Replacements): string {
  const config = attempt(() => readYaml(text));
  return config instanceof Error ? unreadable : dump(redactSettings(config, '', replacements), {lineWidth: -1});
}

/** The words of a command line or a script: flags stay, and so do values that are settings. */
export function redactArguments(args: readonly unknown[], replacements: Replacements): readonly string[] {
  let flag = '';
  return args.map(arg =>
    String(arg).replace(/[^\s"']+/g, word => {
      const [, name, value] = /^--?([a-zA-Z][\w-]*)(?:=(.*))?$/s.exec(word) ?? [];
      const before = flag;
      flag = name !== undefined && value === undefined ? name : '';
      if (name === undefined) return redactWord(word, before, replacements);
      const fresh = `${/^-+/.exec(word)?.[0] ?? ''}${settingName(name, replacements)}`;
      return value === undefined ? fresh : `${fresh}=${redactSetting(value, name, replacements)}`;
    }),
  );
}

/** A word that is not a flag: the value of the preceding flag, or part of the command. k3s passes flags on as values of its own. */
function redactWord(word: string, flag: string, replacements: Replacements): string {
  const [, inner, value] = flag === 'kube-proxy-arg' ? (/^([\w-]+)=(.*)$/s.exec(word) ?? []) : [];
  if (inner !== undefined && value !== undefined) return `${settingName(inner, replacements)}=${redactSetting(value, inner, replacements)}`;
  if (flag !== '') return redactSetting(word, flag, replacements);
  if (/^(?:exec|kube-proxy|server|agent|[\d>&|;\\]+)$/.test(word)) return word;
  return word.endsWith('/kube-proxy') ? '/usr/local/bin/kube-proxy' : replacements.names.replace(word);
}

function redactSettings(value: unknown, name: string, replacements: Replacements): unknown {
  if (typeof value === 'string') return redactSetting(value, name, replacements);
  if (Array.isArray(value)) return value.map(item => redactSettings(item, name, replacements));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [settingName(key, replacements), redactSettings(item, key, replacements)]),
  );
}

function settingName(name: string, {names}: Replacements): string {
  return knownSettings.has(name.toLowerCase()) ? name : names.replace(name);
}

/** Numbers, durations and `$(NODE_NAME)` stay. */
function redactSetting(text: string, name: string, replacements: Replacements): string {
  if (interfaceSettings.has(name.toLowerCase())) return replacements.interfaces.replace(text);
  if (/^(?:-?\d+(?:\.\d+)?|(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+|true|false|\$\([A-Z_]+\)|)$/.test(text)) return text;
  return text
    .split(',')
    .map(part => redactPart(part, name, replacements))
    .join(',');
}

function redactPart(part: string, name: string, replacements: Replacements): string {
  const [, gate = '', state = ''] = name === 'feature-gates' ? (/^\s*(\w+)=(true|false)$/.exec(part) ?? []) : [];
  if (gate !== '') return `${settingName(gate, replacements)}=${state}`;
  return knownValues.has(part) ? part : treatAddress(part, replacements);
}
