import type {PreviewEffect} from '../../../src/model/preview.ts';
import type {KernelComparison} from './compare.ts';
import {isMasqueraded} from './outcome.ts';

/** What the senders of one kind of packet saw of the kernel: the endpoints that were reached, and how it went where none was. */
export interface ClientView {
  /** Whether each endpoint saw the source masqueraded. */
  readonly served: ReadonlyMap<string, boolean | 'in part'>;
  readonly isRefused: boolean;
  /** Some packets reached no endpoint. */
  readonly isUnserved: boolean;
}

/** The node answers at each of its ports so that no refusal is its own; without the lab it would refuse. */
export function clientView({question, sent}: KernelComparison): ClientView {
  const outcomes = Map.groupBy(sent, ({pathOutcome}) => pathOutcome as string);
  const served = [...outcomes].filter(([text]) => text.startsWith('accept ') && text !== 'accept unchanged');
  const {destination} = question.query;
  const isOwn = /^(?:127\.|172\.18\.0\.11$|10\.244\.11\.1$|fd00:172:18::(?:11|b)$|fd00:10:244:(?:11|b)::1$|::1$)/.test(destination);
  return {
    served: new Map(served.map(([text, packets]) => [text, isMasqueraded(packets)])),
    isUnserved: sent.length > served.reduce((sum, [, packets]) => sum + packets.length, 0),
    isRefused: outcomes.has('reject') || (isOwn && outcomes.has('accept unchanged')),
  };
}

/** How what they see changes; null when it does not. */
export function viewEffect(before: ClientView, after: ClientView): PreviewEffect | null {
  const [was, is] = [before.served, after.served];
  if (was.size === 0 && is.size === 0) return before.isRefused === after.isRefused ? null : after.isRefused ? 'refused' : 'unanswered';
  if (is.size === 0 || (after.isUnserved && !before.isUnserved)) return 'lost';
  if (was.size === 0 || (before.isUnserved && !after.isUnserved)) return 'gained';
  if (was.size !== is.size || [...was.keys()].some(key => !is.has(key))) return 'shares';
  return [...was].some(([key, masquerade]) => is.get(key) !== masquerade) ? 'source-address' : null;
}
