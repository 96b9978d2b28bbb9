import {type MendedBug, mayHaveBug, mendedIn} from '../expect/patch-releases.ts';
import type {NodeCheckContext} from './check.ts';

/** A remedy, and which upgrade mends the bugs of this kube-proxy that may be the cause. */
export function withUpgrade(remedy: string, {config}: Pick<NodeCheckContext, 'config'>, bugs: readonly MendedBug[]): string {
  const version = config.version.value;
  const mode = config.mode.value;
  const own = bugs.filter(bug => bug.modes.some(name => name === mode) && mayHaveBug(version, bug));
  const sentences = own.map(
    bug => ` In kube-proxy ${version.text} ${bug.what}: upgrade it to ${mendedIn(version, bug)} or newer (kubernetes#${bug.pulls[0]}).`,
  );
  return remedy + sentences.join('');
}
