/** Where agents are found. */
export interface AgentPlace {
  readonly namespace: string;
  /** Labels of their pods. */
  readonly selector: string;
}

export const defaultAgentPlace: AgentPlace = {namespace: 'svc-trace', selector: 'app.kubernetes.io/name=svc-trace-agent'};

/** The realm that agents name when they refuse a token (WWW-Authenticate): it tells their refusals from those of the API server. */
export const agentRealm = 'svc-trace-agent';

/** A token for this audience is good for agents, and not for the API server. */
export const agentAudience = 'svc-trace-agent';

/** Has a bearer token for the agent: the API server's proxy removes the header Authorization. */
export const agentTokenHeader = 'x-svc-trace-authorization';

/** The ServiceAccount, in the namespace of the agents, in whose name they are asked from outside of the cluster. */
export const readerAccount = 'svc-trace-reader';

/** The default port of an agent. */
export const defaultAgentPort = 10_270;
