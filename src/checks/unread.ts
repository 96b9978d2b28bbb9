import {isExcerpt} from '../analyze/iptables/excerpt.ts';
import {type Misprint, misprintRemedy, misprintsOf} from '../analyze/iptables/misprints.ts';
import {truncationReason} from '../analyze/proxy-mode.ts';
import {proxyVersion, type PortEntry, serviceKey} from '../expect/cluster/cluster-view.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import {kubeProxyLog} from '../model/node/kube-proxy-failures.ts';
import {isRulesAlone, type NodeDump} from '../model/snapshot.ts';
import {check} from './catalog.ts';
import {iptables, onNode, run} from './commands/commands.ts';
import {kubeProxyTrouble, troubleText, readAt} from './kube-proxy.ts';
import {commandLine} from '../model/text.ts';
import {writtenAt} from '../expect/api-index.ts';
import {largest} from '../model/lists.ts';
import type {NodeCheckContext} from './check-types.ts';
import {ofPort} from '../model/finding.ts';
import {gracePeriod} from '../model/state-history.ts';

export const nodeNotRead = check('ST901', {
  // Silent if a part of the node was read: missing parts are ST902, and a truncated dump is ST506.
  *node({api, node, status, unread, view, config}) {
    if ((status.kind === 'unread' || status.kind === 'unsupported') && unread.length === 0) {
      const trouble = kubeProxyTrouble({api, node});
      const isQuiet = isRulesAlone({api}) && node.files.includes(kubeProxyLog) && trouble.log === null;
      const why = isQuiet ? 'its log shows no failure that is known' : trouble.container === null ? null : troubleText(trouble);
      const remedy = status.remedy ?? (why === null ? null : trouble.remedy);
      const message = `${node.name} was not checked: ${status.reason}${why === null ? '' : `; of kube-proxy: ${why}`}`;
      yield {message, remedy: remedy ?? undefined};
    }
    const standIn = status.kind === 'checked' ? view.standIn(proxyVersion(config)) : null;
    if (standIn !== null) yield {message: messageOf(node.name, config, standIn), remedy: remedyOf(standIn.read)};
  },
});

function messageOf(node: string, {version}: ProxyConfig, {used, read}: {readonly used: string; readonly read: string}): string {
  return `${node}: kube-proxy ${version.value.text} uses ${read}, which were not read: the node was checked by ${used} instead, which may differ`;
}

function remedyOf(kind: string): string {
  return `Add api/${kind.toLowerCase()}.json to the bundle: kubectl get ${kind.toLowerCase()} -A -o json`;
}

export const familyNotRead = check('ST902', {
  // Silent if the dump exists and is unreliable, which is ST506.
  *node({api, node, unread, rulesets, config, status, nft}) {
    const misprints = misprintsOf(rulesets);
    const isNft = config.mode.value === 'nftables';
    for (const {family, reason} of unread) {
      const ruleset = rulesets.get(family);
      if (isNft && ((nft()?.truncation ?? null) !== null || nft()?.misprint !== undefined)) continue;
      if (ruleset !== undefined && (ruleset.truncation !== null || misprints.has(family))) continue;
      const how = ruleset !== undefined && isExcerpt(ruleset) ? 'was checked in part' : 'was not checked';
      const message = `${family} ${how} on ${node.name}: ${reason}`;
      yield {family, message, ...onNode({api, node}, isNft ? commandLine`nft list ruleset` : commandLine`${`${iptables(family)}-save`}`)};
    }
    const unseen = isNft && status.kind === 'checked' ? unseenIptables(node) : [];
    if (unseen.length > 0) {
      const message = `there is no ${unseen.join(' and no ')} of ${node.name}: whether third-party rules in iptables affect Services was not checked`;
      yield {severity: 'info', message};
    }
  },
});

/**
 * kube-proxy in nftables mode needs no iptables, but other programs on the node may use it. A dump may also show that there are no rules.
 */
function unseenIptables({files, leftOut}: NodeDump): readonly string[] {
  return ['iptables', ...(leftOut === 'IPv6' ? [] : ['ip6tables'])]
    .filter(tool => !files.some(file => file.startsWith(tool) && file.endsWith('-save')))
    .map(tool => `${tool}-save`);
}

export const dumpUnreliable = check('ST506', {
  *node({api, node, rulesets, config, nft}) {
    const {truncation = null, misprint, toolVersion = null} = (config.mode.value === 'nftables' ? nft() : null) ?? {};
    if (misprint !== undefined)
      yield {
        actual: misprint.rules,
        message: `rules of kube-proxy read as "${misprint.text}": ${whoReads('nft', 'older', toolVersion)}`,
        remedy: 'Read the node with the nft of its kube-proxy (--transport exec), or with nft 1.1.3 or later.',
        ...onNode({api, node}, commandLine`nft list ruleset`),
      };
    if (truncation !== null) {
      const message = `the dump of nftables ${truncationReason(truncation)}: rules after that were not checked`;
      yield {message, ...onNode({api, node}, commandLine`nft list ruleset`)};
    }
    for (const [family, ruleset] of rulesets) {
      if (ruleset.truncation !== null) {
        const message = `the ${family} dump ${truncationReason(ruleset.truncation)}: rules after that were not checked`;
        yield {family, message, ...onNode({api, node}, commandLine`${`${iptables(family)}-save`}`)};
      }
    }
    for (const [family, misprint] of misprintsOf(rulesets)) {
      const {what, reader, version, rules} = misprint;
      yield {
        family,
        remedy: misprintRemedy(misprint),
        actual: rules.slice(0, 3),
        // Of a rule that is missing in part, the effect is seen at once.
        gist:
          rules[0]?.chain === 'KUBE-FIREWALL'
            ? 'a rule of KUBE-FIREWALL drops every packet, or this dump does not show its mark'
            : `${what}, printed by ${reader === 'older' ? 'an older' : 'a newer'} iptables than wrote them`,
        message: `${family}: ${what}: ${whoReads('iptables', reader, version)}`,
        ...onNode({api, node}, commandLine`${`${iptables(family)}-save`}`),
      };
    }
  },
});

function whoReads(program: string, reader: Misprint['reader'], version: string | null): string {
  return `the ${program} that read these rules is ${reader} than the one that wrote them${version === null ? '' : ` (it is ${version})`}`;
}

export const changedWhileLooking = check('ST904', {
  *node(context) {
    const now = readAt(context);
    // If the Services were followed, the states that the node may have are known, and no warning is needed.
    if (now === null || context.isFollowed) return;
    const reported = new Set<string>();
    const ports = context.symptoms.flatMap(({port}) => port ?? []);
    for (const port of ports) {
      if (reported.has(serviceKey(port))) continue;
      reported.add(serviceKey(port));
      const age = Math.round((now - lastChange({port}, context)) / 1000);
      if (age >= gracePeriod || age < -gracePeriod) continue;
      const message = `${serviceKey(port)} changed ${Math.max(age, 0)} s before ${context.node.name} was read: kube-proxy may not have followed yet`;
      yield {...ofPort(port), message, ...run(commandLine`kubectl svc-trace check ${serviceKey(port)} --node ${context.node.name}`)};
    }
  },
});

function lastChange({port}: Pick<PortEntry, 'port'>, {view, config}: NodeCheckContext): number {
  const slices = view.slicesOf(serviceKey(port), proxyVersion(config));
  return largest([port.object, ...slices].map(({metadata}) => writtenAt(metadata)));
}
