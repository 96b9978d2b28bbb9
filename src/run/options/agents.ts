import {type AgentPlace, defaultAgentPlace} from '../../collect/agents/agent-place.ts';

/** The parsed values of `agentsFlags`. */
export interface ParsedAgentsFlags {
  readonly agents?: boolean;
  readonly 'agents-namespace'?: string;
  readonly 'agents-selector'?: string;
  readonly 'agents-token-file'?: string | undefined;
}

export function agentPlace(flags: ParsedAgentsFlags): AgentPlace {
  const {namespace, selector} = defaultAgentPlace;
  return {namespace: flags['agents-namespace'] ?? namespace, selector: flags['agents-selector'] ?? selector};
}
