import {Flags} from '@oclif/core';
import {defaultDebugNamespace} from '../../collect/transports/debug.ts';
import {automatic, type TransportName} from '../../collect/transports/transports.ts';
import {agentsFlags, connectionFlags, transportFlags} from '../options/cluster-flags.ts';
import {outputFlag, outputFlags, scopeFlags} from '../options/flags.ts';
import {type AccessReport, missing} from '../../model/permission.ts';
import {accessRenderers} from '../../render/access/access-report.ts';
import {BaseCommand} from './base-command.ts';
import {type AccessScope, permissionsFor} from '../../collect/access/permissions.ts';
import {reviewAccess} from '../../collect/access/review-access.ts';
import {unlessAborted} from '../../collect/unless-aborted.ts';
import type {OpenCluster} from '../../run/open-cluster.ts';

export default class AccessCommand extends BaseCommand {
  static override summary = 'Show which permissions are needed and missing';
  static override description =
    `Asks the API server for each permission (SelfSubjectAccessReview) and prints the smallest Role that grants them: for the namespace of the context, for -n, or for all namespaces (-A, which capture needs). Nothing is changed, and nothing else is read but the names of nodes where nodes/proxy is refused as a whole.
Exit codes: 0 every required permission is allowed, 1 one is missing, 2 wrong use, 3 the API server does not answer.`;
  static override examples = [
    '<%= config.bin %> access -A',
    '<%= config.bin %> access --transport debug -n shop',
    '<%= config.bin %> access --transport exec --as system:serviceaccount:ci:gate',
    '<%= config.bin %> access --agents -A',
    '<%= config.bin %> access -A -o role | kubectl apply -f -',
  ];
  static override flags = {
    namespace: scopeFlags.namespace,
    'all-namespaces': scopeFlags['all-namespaces'],
    transport: transportFlags.transport,
    'debug-namespace': transportFlags['debug-namespace'],
    agents: Flags.boolean({description: 'for check --agents, which reads no nodes', helpGroup: 'AGENTS'}),
    'agents-namespace': agentsFlags['agents-namespace'],
    ...connectionFlags,
    'output-file': outputFlags['output-file'],
    color: outputFlags.color,
    output: outputFlag(accessRenderers, 'table'),
  };

  async run(): Promise<void> {
    const {flags} = await this.parse(AccessCommand);
    const by = {
      transport: flags.transport === 'auto' ? automatic : (flags.transport as TransportName),
      debugNamespace: flags['debug-namespace'] ?? defaultDebugNamespace,
      agentsNamespace: flags.agents ? flags['agents-namespace'] : undefined,
    };
    const report = await this.withCluster({...flags, quiet: true, 'no-progress': true}, ({cluster, signal}) =>
      unlessAborted(reviewCluster(cluster, by, flags['all-namespaces']), signal),
    );
    const render = accessRenderers[flags.output as keyof typeof accessRenderers];
    this.print(render(report, this.renderOptions({...flags, quiet: false, verbose: false})), flags['output-file']);
    process.exitCode = missing(report).length === 0 ? 0 : 1;
  }
}

/** Asks the cluster for each permission. Rejects with an ApiError if there is no answer. */
async function reviewCluster(
  {api, description, namespace: own}: OpenCluster,
  by: Omit<AccessScope, 'namespace'>,
  inAll: boolean,
): Promise<AccessReport> {
  const namespace = inAll ? null : own;
  const asker = (await api.podToken()) === null ? 'outside' : 'pod';
  const permissions = await reviewAccess(api, permissionsFor({...by, namespace, asker}));
  return {cluster: description, transport: by.agentsNamespace === undefined ? by.transport : 'agents', namespace, permissions};
}
