/** Where agents are found. */
export interface AgentPlace {
  readonly namespace: string;
  /** Labels of their pods. */
  readonly selector: string;
}

export const defaultAgentPlace: AgentPlace = {namespace: 'svc-trace', selector: 'app.kubernetes.io/name=svc-trace-agent'};

/** Where an agent answers, unless its pod says otherwise. */
export const defaultAgentPort = 10_270;
