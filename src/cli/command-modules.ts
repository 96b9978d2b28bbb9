import type {Command} from '@oclif/core';

/** Every command by name. Each is loaded only when it runs. */
export const commandModules: Readonly<Record<string, () => Promise<{readonly default: Command.Class}>>> = {
  access: () => import('./commands/access.ts'),
  agent: () => import('./commands/agent.ts'),
  capture: () => import('./commands/capture.ts'),
  check: () => import('./commands/check.ts'),
  completion: () => import('./commands/completion.ts'),
  diff: () => import('./commands/diff.ts'),
  explain: () => import('./commands/explain.ts'),
  packet: () => import('./commands/packet.ts'),
  preview: () => import('./commands/preview.ts'),
  rules: () => import('./commands/rules.ts'),
  top: () => import('./commands/top.ts'),
  trace: () => import('./commands/trace.ts'),
  watch: () => import('./commands/watch.ts'),
};
