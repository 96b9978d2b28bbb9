/** Where agents are found. */
export interface AgentPlace {
  readonly namespace: string;
  /** Labels of their pods. */
  readonly selector: string;
}

export const defaultAgentPlace: AgentPlace = {namespace: 'svc-trace', selector: 'app.kubernetes.io/name=svc-trace-agent'};

/** The default port of an agent. */
export const defaultAgentPort = 10_270;
