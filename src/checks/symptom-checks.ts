import type {Observation} from '../model/finding.ts';
import type {Symptom, SymptomKind} from '../analyze/symptoms/symptom.ts';
import type {Check, NodeCheckContext} from './check-types.ts';
import {listPlace, logAndRestart, restart, run, showArguments, showLog, withUpgrade} from './commands/commands.ts';
import {commandLine} from '../model/text.ts';
import {isKubeProxyChain} from '../analyze/third-party/iptables-rules.ts';
import {agentAction} from './cilium-checks.ts';
import {symptomObservations} from './symptom-observations.ts';
import {mendedBugs} from '../expect/patch-releases.ts';
import {ofDetector, otherNodeName} from './promise-checks.ts';
import {catalogRow, check, howToRestart, logFirst, restartIt} from './catalog.ts';
import {kubeProxyTrouble, lacksKubeProxy, portInUse, replacementOf, troubleText} from './kube-proxy.ts';

/** A check that only reports the symptoms of its kind. */
interface SymptomCheck {
  readonly code: string;
  readonly kind: SymptomKind;
  /** The command for the remedy; left out if there is none. */
  readonly command?: CommandOf;
  /** The remedy where the rules that show the symptom are kube-proxy's, which is restarted, or those of another program, which are shown. */
  readonly ofKubeProxy?: string;
  readonly ofThirdParty?: string;
  /** The remedy where packets are refused that should get in. */
  readonly remedyForRefused?: string;
  /** What else is reported, without symptoms. */
  readonly also?: (context: NodeCheckContext) => Iterable<Observation>;
  /** Another finding says it better. */
  readonly isSaid?: (context: NodeCheckContext, symptom: Symptom) => boolean;
}

type CommandOf = (context: NodeCheckContext, observation: Observation) => Pick<Observation, 'command'>;

/** The pod networks of all nodes. */
const podNetworks = run(commandLine`kubectl get nodes -o custom-columns=NAME:.metadata.name,PODCIDRS:.spec.podCIDRS`);

const table: readonly SymptomCheck[] = [
  {code: 'ST201', kind: 'service-not-programmed', command: logAndRestart},
  {code: 'ST202', kind: 'missing-endpoint', command: logAndRestart},
  {code: 'ST203', kind: 'stale-endpoint', command: logAndRestart},
  {code: 'ST204', kind: 'wrong-endpoint-address', command: restart},
  {code: 'ST205', kind: 'stale-service', command: logAndRestart},
  {code: 'ST206', kind: 'missing-entry', command: logAndRestart},
  {code: 'ST207', kind: 'traffic-policy-mismatch', command: logAndRestart},
  {code: 'ST208', kind: 'uneven-balance', command: restart},
  {code: 'ST209', kind: 'session-affinity-mismatch', command: logAndRestart},
  {code: 'ST210', kind: 'source-ranges-mismatch', remedyForRefused: logFirst('did not apply the change'), command: logAndRestart},
  {
    code: 'ST211',
    kind: 'masquerade-mismatch',
    command: restart,
    ofThirdParty:
      'Find out which tool wrote the rule (flannel, Docker, a firewall), and exempt packets to pods of this node there. A restart of kube-proxy does not change the rule.',
  },
  {
    code: 'ST212',
    kind: 'missing-reject',
    command: logAndRestart,
    ofThirdParty:
      "Find out which tool wrote the rule (a network policy agent, a firewall), and have it put the rule, or the jump that leads to it, behind kube-proxy's jumps. Do not just delete it: other traffic may need it.",
  },
  {code: 'ST213', kind: 'unexpected-reject', command: logAndRestart},
  {code: 'ST214', kind: 'broken-jump', command: restart},
  {code: 'ST215', kind: 'orphan-chain'},
  {code: 'ST216', kind: 'unexpected-rule', command: listPlace},
  {code: 'ST217', kind: 'missing-rule', command: logAndRestart},
  {code: 'ST218', kind: 'duplicate-rule'},
  {
    code: 'ST219',
    kind: 'health-check-port-blocked',
    command: logAndRestart,
    ofThirdParty: 'Open the port for the load balancer in the tool that wrote the rule (firewalld, ufw, a security agent).',
  },
  {code: 'ST301', kind: 'services-chain-not-hooked', command: restart},
  {
    code: 'ST302',
    kind: 'postrouting-broken',
    command: restart,
    ofThirdParty:
      "Find out which tool wrote the rule. It must not change kube-proxy's mark (masqueradeBit), and must come after the jump to KUBE-POSTROUTING. A restart of kube-proxy does not change the rule.",
  },
  {
    code: 'ST303',
    kind: 'forward-blocked',
    command: listPlace,
    ofKubeProxy: `${restartIt} Then find out what changed its rules.`,
    ofThirdParty:
      'Find out which tool wrote the rule (firewalld, ufw, a security agent). If the traffic is to pass, accept the pod network in that tool: an ACCEPT that comes after the rule has no effect.',
  },
  {code: 'ST304', kind: 'node-ports-unreachable', command: restart},
  {code: 'ST305', kind: 'no-service-rules', command: showLog},
  {code: 'ST306', kind: 'canary-missing', command: ({node}) => run(commandLine`kubectl svc-trace check -A --node ${node.name}`)},
  {code: 'ST401', kind: 'entry-taken-by-other-rule', command: listPlace},
  {code: 'ST402', kind: 'dropped-by-other-rule', command: listPlace},
  {code: 'ST403', kind: 'undecided-path', command: listPlace},
  {
    code: 'ST504',
    kind: 'cluster-cidr-mismatch',
    command: () => podNetworks,
    isSaid: (context, {cause}) => cause === 'setting' && ofDetector(context).length > 0,
  },
  {code: 'ST507', kind: 'node-name-mismatch', command: showArguments, also: otherNodeName},
  {code: 'ST509', kind: 'zone-unknown-to-kube-proxy', command: restart},
];

/** The checks that report one kind of symptom each: the result of comparing and walking a node's rules. */
export const symptomChecks: readonly Check[] = table.map(row => {
  const {code, kind, command, ofKubeProxy, ofThirdParty, remedyForRefused, also, isSaid} = row;
  const {remedy: usual} = catalogRow(code);
  const withAction = (context: NodeCheckContext, symptom: Symptom, observation: Observation): Observation => {
    // A symptom with a remedy of its own is not put right by the command of the others.
    if (observation.remedy !== undefined) return observation;
    if (symptom.by === 'cilium') return {...observation, ...agentAction(context, symptom)};
    const owner = ownerOf(observation);
    const ofOwner = owner === 'kube-proxy' ? ofKubeProxy : owner === 'third party' ? ofThirdParty : undefined;
    const remedy = ofOwner ?? (symptom.refuses ? remedyForRefused : undefined) ?? usual;
    const commandOf = ofOwner === undefined ? command : owner === 'kube-proxy' ? restart : listPlace;
    const instead = toRestart.has(commandOf) ? insteadOfRestart(context, kind) : null;
    if (instead !== null) return {...observation, ...instead};
    const whole = updates.has(kind) ? withUpgrade(remedy, context, losingUpdates) : remedy;
    return {...observation, ...(whole === usual ? {} : {remedy: whole}), ...commandOf?.(context, observation)};
  };
  return check(code, {
    node: context => {
      const symptoms = context.symptoms.filter(symptom => symptom.kind === kind && isSaid?.(context, symptom) !== true);
      if (symptoms.length === 0) return also?.(context) ?? [];
      const why = kind === 'no-service-rules' ? troubleText(kubeProxyTrouble(context)) : null;
      return symptomObservations(symptoms).map(({symptom, observation}) => {
        const {message} = observation;
        const taken = takenPort(context, symptom);
        if (taken !== null) {
          const {line, ...action} = taken;
          return {...observation, ...action, message: `${message}. Of kube-proxy: its log says: ${line}`};
        }
        if (why === null && kind === 'no-service-rules' && neverRan(context))
          return {
            ...observation,
            message: `${message}: ${noPod}, nor a trace of it on the node`,
            variant: 'never-ran',
            gist: noPod,
            remedy: startIt,
          };
        return withAction(context, symptom, {...observation, message: why === null ? message : `${message}. Of kube-proxy: ${why}`});
      });
    },
  });
});

/** It leaves its chains in each table, whatever empties another. */
function neverRan(context: NodeCheckContext): boolean {
  const texts = ['iptables-save', 'ip6tables-save'].map(file => context.node.read(file)?.toString('latin1') ?? '');
  return lacksKubeProxy(context) && replacementOf(context) === null && !texts.some(text => /KUBE-(?:SERVICES|PROXY)/.test(text));
}

const noPod = 'no pod of kube-proxy is in the cluster';
const startIt = 'Start kube-proxy (kubeadm init phase addon kube-proxy), or what serves Services in its place.';

/** A node port without rules, of which the log of kube-proxy says that another process listens there. */
function takenPort(context: NodeCheckContext, {kind, entry, port}: Symptom) {
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
