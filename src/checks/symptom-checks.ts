import type {Observation} from '../model/finding.ts';
import type {Symptom, SymptomKind} from '../analyze/symptoms/symptom.ts';
import type {Check, NodeCheckContext} from './check.ts';
import {listPlace, logAndRestart, restart, run, showArguments, showLog, withUpgrade} from './commands/commands.ts';
import {commandLine} from '../model/text.ts';
import {isKubeProxyChain} from '../analyze/third-party/iptables-rules.ts';
import {agentAction} from './cilium-checks.ts';
import {symptomObservations} from './symptom-observations.ts';
import {mendedBugs} from '../expect/patch-releases.ts';
import {ofDetector, otherNodeName} from './promise-checks.ts';
import {kubeProxyTrouble, portInUse, replacementOf, troubleText} from './kube-proxy-trouble.ts';

/** A check that only reports the symptoms of its name. */
interface SymptomCheck extends Pick<Check, 'code' | 'severity' | 'summary' | 'remedy'> {
  readonly name: SymptomKind;
  /** The command for the remedy; left out if there is none. */
  readonly command?: CommandOf;
  /** In place of both where the rules that show the symptom are kube-proxy's, or those of another program. */
  readonly ofKubeProxy?: Action;
  readonly ofThirdParty?: Action;
  /** In place of the remedy where packets are refused that should get in. */
  readonly remedyForRefused?: string;
  /** What else is reported, without symptoms. */
  readonly also?: (context: NodeCheckContext) => Iterable<Observation>;
  /** Another finding says it better. */
  readonly isSaid?: (context: NodeCheckContext, symptom: Symptom) => boolean;
}

type CommandOf = (context: NodeCheckContext, observation: Observation) => Pick<Observation, 'command'>;

interface Action {
  readonly remedy: string;
  readonly command: CommandOf;
}

const howToRestart = '(delete its pod, or restart the service that runs it): it rewrites all rules when it starts.';
const restartIt = `Restart kube-proxy on this node ${howToRestart}`;
const noUpdates = logFirst('stopped processing EndpointSlice updates');

/** A new pod begins with an empty log. */
function logFirst(what: string): string {
  return `Read the log of kube-proxy on this node for why it ${what}. Then restart it ${howToRestart}`;
}

/** The pod networks of all nodes. */
const podNetworks = run(commandLine`kubectl get nodes -o custom-columns=NAME:.metadata.name,PODCIDRS:.spec.podCIDRS`);

const table = [
  {
    code: 'ST201',
    name: 'service-not-programmed',
    severity: 'error',
    summary: 'A Service port that a node should serve is not programmed on it',
    remedy: logFirst('did not program the Service'),
    command: logAndRestart,
  },
  {
    code: 'ST202',
    name: 'missing-endpoint',
    severity: 'error',
    summary: 'An endpoint that should get traffic gets none on a node',
    remedy: noUpdates,
    command: logAndRestart,
  },
  {
    code: 'ST203',
    name: 'stale-endpoint',
    severity: 'error',
    summary: 'Traffic on a live path goes to an address that is no usable endpoint of the Service',
    remedy: noUpdates,
    command: logAndRestart,
  },
  {
    code: 'ST204',
    name: 'wrong-endpoint-address',
    severity: 'error',
    summary: 'The chain of an endpoint sends traffic to another address or port',
    remedy: `${restartIt} kube-proxy never writes such a rule: find out what changed it.`,
    command: restart,
  },
  {
    code: 'ST205',
    name: 'stale-service',
    severity: 'error',
    summary: 'A Service port that is not in the API still answers on a node',
    remedy: logFirst('did not process the deletion'),
    command: logAndRestart,
  },
  {
    code: 'ST206',
    name: 'missing-entry',
    severity: 'error',
    summary: 'One entry of a Service is not programmed while others are',
    remedy: logFirst('did not program the entry'),
    command: logAndRestart,
  },
  {
    code: 'ST207',
    name: 'traffic-policy-mismatch',
    severity: 'error',
    summary: 'Endpoints are picked by another traffic policy than the configured one',
    remedy: logFirst('did not apply the change of the traffic policy'),
    command: logAndRestart,
  },
  {
    code: 'ST208',
    name: 'uneven-balance',
    severity: 'warning',
    summary: 'Usable endpoints do not get equal shares of the traffic',
    remedy: `${restartIt} kube-proxy gives equal shares: find out what changed the rules.`,
    command: restart,
  },
  {
    code: 'ST209',
    name: 'session-affinity-mismatch',
    severity: 'warning',
    summary: 'Session affinity is missing, extra, or has another timeout',
    remedy: logFirst('did not apply the change of sessionAffinity'),
    command: logAndRestart,
  },
  {
    code: 'ST210',
    name: 'source-ranges-mismatch',
    severity: 'error',
    summary: 'Packets from outside loadBalancerSourceRanges are accepted, or packets from inside them are dropped',
    remedy: `${logFirst('did not apply the change')} Until then, block the address at the load balancer or in the network.`,
    remedyForRefused: logFirst('did not apply the change'),
    command: logAndRestart,
  },
  {
    code: 'ST211',
    name: 'masquerade-mismatch',
    severity: 'warning',
    summary: 'A packet is masqueraded where it should not be, or not masqueraded where it should be',
    remedy: `${restartIt} If many nodes report this, compare clusterCIDR and masqueradeAll of kube-proxy with the pod network.`,
    command: restart,
    ofThirdParty: {
      remedy:
        'Find out which tool wrote the rule (flannel, Docker, a firewall), and exempt packets to pods of this node there. A restart of kube-proxy does not change the rule.',
      command: listPlace,
    },
  },
  {
    code: 'ST212',
    name: 'missing-reject',
    severity: 'error',
    summary: 'A Service without endpoints does not refuse connections: they hang or leave the node',
    remedy: logFirst('did not write the rule'),
    command: logAndRestart,
    ofThirdParty: {
      remedy:
        "Find out which tool wrote the rule (a network policy agent, a firewall), and have it put the rule, or the jump that leads to it, behind kube-proxy's jumps. Do not just delete it: other traffic may need it.",
      command: listPlace,
    },
  },
  {
    code: 'ST213',
    name: 'unexpected-reject',
    severity: 'error',
    summary: 'A rule of kube-proxy refuses or drops packets to a Service that has endpoints',
    remedy: noUpdates,
    command: logAndRestart,
  },
  {
    code: 'ST214',
    name: 'broken-jump',
    severity: 'error',
    summary: 'A rule jumps to a chain that is empty or missing',
    remedy: `${restartIt} Since 1.27 kube-proxy rewrites an unchanged Service only in a full sync.`,
    command: restart,
  },
  {
    code: 'ST215',
    name: 'orphan-chain',
    severity: 'info',
    summary: 'Chains of kube-proxy that no rule jumps to',
    remedy:
      'No action is needed: kube-proxy removes them in its next full sync. KUBE-XLB chains under 1.28 or later stay until the node is rebooted and can block syncs.',
  },
  {
    code: 'ST216',
    name: 'unexpected-rule',
    severity: 'info',
    summary: "A rule in kube-proxy's chains that kube-proxy would not have written",
    remedy: "Find out what writes into kube-proxy's chains. A restart of kube-proxy on this node removes the rule.",
    command: listPlace,
  },
  {
    code: 'ST217',
    name: 'missing-rule',
    severity: 'info',
    summary: 'A rule that kube-proxy would have written is missing, and no other code describes it better',
    remedy: logFirst('did not write the rule'),
    command: logAndRestart,
  },
  {
    code: 'ST218',
    name: 'duplicate-rule',
    severity: 'info',
    summary: 'The same rule is in a chain twice',
    remedy: 'No action is needed now. If their number grows, compare the iptables versions of the node and of the kube-proxy image.',
  },
  {
    code: 'ST219',
    name: 'health-check-port-blocked',
    severity: 'warning',
    summary: 'Health checks of load balancers are not let through: the accept rule is missing, or another rule refuses them first',
    remedy: logFirst('did not write the rule'),
    command: logAndRestart,
    ofThirdParty: {
      remedy: 'Open the port for the load balancer in the tool that wrote the rule (firewalld, ufw, a security agent).',
      command: listPlace,
    },
  },
  {
    code: 'ST301',
    name: 'services-chain-not-hooked',
    severity: 'error',
    summary: "A base chain does not jump to kube-proxy's chains",
    remedy:
      'Restart kube-proxy on this node: it restores its jumps when it starts (from 1.27 on only then and in full syncs). Then find out what removed the jump: a firewall reload, or an agent that rewrites base chains.',
    command: restart,
  },
  {
    code: 'ST302',
    name: 'postrouting-broken',
    severity: 'error',
    summary: 'The masquerade mark is never set, never matched or never acted on',
    remedy:
      'Restart kube-proxy on this node, and find out what changed the chain. Two agents with the same mark bit are a common cause (masqueradeBit).',
    command: restart,
    ofThirdParty: {
      remedy:
        "Find out which tool wrote the rule. It must not change kube-proxy's mark (masqueradeBit), and must come after the jump to KUBE-POSTROUTING. A restart of kube-proxy does not change the rule.",
      command: listPlace,
    },
  },
  {
    code: 'ST303',
    name: 'forward-blocked',
    severity: 'error',
    summary: 'A packet that was already sent to a pod is dropped in FORWARD',
    remedy:
      'Accept the pod network in FORWARD, or set its policy to ACCEPT, in the tool that sets it (Docker, iptables-persistent, firewalld).',
    command: listPlace,
    ofKubeProxy: {remedy: `${restartIt} Then find out what changed its rules.`, command: restart},
    ofThirdParty: {
      remedy:
        'Find out which tool wrote the rule (firewalld, ufw, a security agent). If the traffic is to pass, accept the pod network in that tool: an ACCEPT that comes after the rule has no effect.',
      command: listPlace,
    },
  },
  {
    code: 'ST304',
    name: 'node-ports-unreachable',
    severity: 'error',
    summary: 'The jump to the node ports is missing, restricted to the wrong addresses, or shadowed',
    remedy: 'Restart kube-proxy on this node. If the addresses are wrong, compare nodePortAddresses with the addresses of the node.',
    command: restart,
  },
  {
    code: 'ST305',
    name: 'no-service-rules',
    severity: 'error',
    summary: "A node holds none of kube-proxy's Service rules, or lost most of those that lead to Services",
    remedy:
      'Check whether kube-proxy runs on this node, and its log for errors of iptables-restore or nft: one invalid rule makes the whole transaction fail. Restart it after the cause is removed.',
    command: showLog,
  },
  {
    code: 'ST306',
    name: 'canary-missing',
    severity: 'info',
    summary: "kube-proxy's canary chain is missing from a table: something flushed it",
    remedy:
      'Wait a minute: kube-proxy rewrites all rules when it notices. Then find out what flushes the table (a firewall reload, iptables-restore without --noflush).',
    command: ({node}) => run(commandLine`kubectl svc-trace check -A --node ${node.name}`),
  },
  {
    code: 'ST401',
    name: 'entry-taken-by-other-rule',
    severity: 'error',
    summary: "A third-party rule intercepts a Service's packets before kube-proxy's rules",
    remedy:
      'Find out which tool wrote the rule (a host port of a pod, a mesh, a firewall). Remove it, or give one of the two another port.',
    command: listPlace,
  },
  {
    code: 'ST402',
    name: 'dropped-by-other-rule',
    severity: 'error',
    summary: "A third-party rule drops or rejects a Service's packets",
    remedy:
      'Find out which tool wrote the rule (firewalld, ufw, a security agent), and add an exception for the traffic of Services there.',
    command: listPlace,
  },
  {
    code: 'ST403',
    name: 'undecided-path',
    severity: 'warning',
    summary: "A rule on a Service's path has a match or target that svc-trace cannot evaluate",
    remedy: 'Check by hand whether the rule lets the packets pass. An ipset match can be evaluated if the bundle holds ipset-save.',
    command: listPlace,
  },
  {
    code: 'ST504',
    name: 'cluster-cidr-mismatch',
    severity: 'warning',
    summary: "The CIDR or interface in the masquerade rules does not cover the node's pods, or is not the configured one",
    remedy:
      'Compare clusterCIDR and detectLocalMode of kube-proxy with spec.podCIDRs of the nodes and with the pod network of the CNI. Restart kube-proxy after a correction.',
    command: () => podNetworks,
    isSaid: (context, {cause}) => cause === 'setting' && ofDetector(context).length > 0,
  },
  {
    code: 'ST507',
    name: 'node-name-mismatch',
    severity: 'error',
    summary: "The node's rules treat none of the API's local endpoints as local: kube-proxy runs under another node name",
    remedy: 'Start kube-proxy with --hostname-override set to the name of the Node object (metadata.name).',
    command: showArguments,
    also: otherNodeName,
  },
  {
    code: 'ST509',
    name: 'zone-unknown-to-kube-proxy',
    severity: 'warning',
    summary: 'For all Services with hints the node uses the endpoints that a node without a zone would use',
    remedy:
      'Restart kube-proxy on this node: it reads the zone label when it starts (a start-up race of 1.34 to 1.36, or a label that was set later).',
    command: restart,
  },
] as const satisfies readonly SymptomCheck[];

/** The checks that report one kind of symptom each: the result of comparing and walking a node's rules. */
export const symptomChecks: readonly Check<(typeof table)[number]['code']>[] = table.map(row => {
  const {
    command,
    ofKubeProxy,
    ofThirdParty,
    remedyForRefused,
    also,
    isSaid,
    ...check
  }: SymptomCheck & {readonly code: (typeof table)[number]['code']} = row;
  const withAction = (context: NodeCheckContext, symptom: Symptom, observation: Observation): Observation => {
    // A symptom with a remedy of its own is not put right by the command of the others.
    if (observation.remedy !== undefined) return observation;
    if (symptom.by === 'cilium') return {...observation, ...agentAction(context, symptom)};
    const owner = ownerOf(observation);
    const action = owner === 'kube-proxy' ? ofKubeProxy : owner === 'third party' ? ofThirdParty : undefined;
    const remedy = action?.remedy ?? (symptom.refuses ? remedyForRefused : undefined);
    const commandOf = action?.command ?? command;
    const instead = toRestart.has(commandOf) ? insteadOfRestart(context, row.name) : null;
    if (instead !== null) return {...observation, ...instead};
    const whole = updates.has(row.name) ? withUpgrade(remedy ?? row.remedy, context, losingUpdates) : (remedy ?? row.remedy);
    return {...observation, ...(whole === row.remedy ? {} : {remedy: whole}), ...commandOf?.(context, observation)};
  };
  return {
    ...check,
    node: context => {
      const symptoms = context.symptoms.filter(symptom => symptom.kind === row.name && isSaid?.(context, symptom) !== true);
      if (symptoms.length === 0) return also?.(context) ?? [];
      const why = row.name === 'no-service-rules' ? troubleText(kubeProxyTrouble(context)) : null;
      return symptomObservations(symptoms).map(({symptom, observation}) => {
        const {message} = observation;
        const taken = takenPort(context, symptom);
        if (taken !== null) {
          const {line, ...action} = taken;
          return {...observation, ...action, message: `${message}. Of kube-proxy: its log says: ${line}`};
        }
        return withAction(context, symptom, {...observation, message: why === null ? message : `${message}. Of kube-proxy: ${why}`});
      });
    },
  };
});

/** A node port without rules, of which the log of kube-proxy says that another process listens there. */
function takenPort(
  context: NodeCheckContext,
  {kind, entry, port}: Symptom,
): (Pick<Observation, 'remedy' | 'command'> & {readonly line: string}) | null {
  if (kind !== 'missing-entry' || entry?.kind !== 'nodePort' || port === null) return null;
  const line = portInUse(context, port.servicePortName, entry.port);
  const remedy = `Another process listens on port ${entry.port} of the node, and this kube-proxy then leaves the node port out. Stop the process or give it another port (ss -ltnup shows it), then restart kube-proxy ${howToRestart}`;
  return line === null ? null : {line, remedy, ...showLog(context)};
}

/** What a kube-proxy that missed an update leaves. */
const updates: ReadonlySet<SymptomKind> = new Set(['service-not-programmed', 'missing-endpoint', 'stale-endpoint', 'missing-entry']);
const losingUpdates = [mendedBugs.lostUpdates, mendedBugs.hourlyIpvs];

/** The commands beside remedies that end in a restart of kube-proxy. */
const toRestart: ReadonlySet<CommandOf | undefined> = new Set([restart, logAndRestart, showLog]);

/** What to do where a restart of kube-proxy changes nothing: it ends again, or another program took its place. */
function insteadOfRestart(context: NodeCheckContext, name: SymptomKind): Pick<Observation, 'remedy' | 'command'> | null {
  const {container, log, remedy} = kubeProxyTrouble(context);
  // A line may be long ago, unless none of its rules is there.
  if (remedy !== null && (container !== null || (log !== null && name === 'no-service-rules'))) return {remedy, ...showLog(context)};
  const other = replacementOf(context);
  if (other === null) return null;
  return {
    remedy: `No kube-proxy runs in this cluster, and ${other} may serve its Services: these rules are left over. Remove them from the node (run kube-proxy --cleanup with the image that wrote them, or reboot the node), or start kube-proxy again.`,
  };
}

/** Who writes the rules that show a symptom; null where there are none, as with the policy of a base chain. */
function ownerOf({expected = [], actual = []}: Observation): 'kube-proxy' | 'third party' | null {
  // A rule that kube-proxy would have written is missing.
  if (expected.length > 0) return 'kube-proxy';
  if (actual.length === 0) return null;
  return actual.some(({table, chain}) => isKubeProxyChain(chain, table) || table.endsWith(' kube-proxy')) ? 'kube-proxy' : 'third party';
}
