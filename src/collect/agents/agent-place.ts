/** Where agents are found. */
export interface AgentPlace {
  readonly namespace: string;
  /** Labels of their pods. */
  readonly selector: string;
}

export const defaultAgentPlace: AgentPlace = {namespace: 'svc-trace', selector: 'app.kubernetes.io/name=svc-trace-agent'};

/** The realm of agents (WWW-Authenticate). It distinguishes their refusals from those of the API server. */
export const agentRealm = 'svc-trace-agent';

/** The audience of tokens that are valid for agents and not for the API server. */
export const agentAudience = 'svc-trace-agent';

/** The header for an agent's bearer token: the API server's proxy removes Authorization. */
export const agentTokenHeader = 'x-svc-trace-authorization';

/** The ServiceAccount, in the agents' namespace, whose tokens are requested outside of the cluster. */
export const readerAccount = 'svc-trace-reader';

/** The default port of an agent. */
export const defaultAgentPort = 10_270;
