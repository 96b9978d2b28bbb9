import type {Preview} from '../../model/preview.ts';
import {isBlocking, isLoss, summarizePreview} from '../../render/preview/preview-text.ts';

/**
 * 1 if traffic is lost or gained, other than what manifests add, or kube-proxy would not start; with `any`, for every change; 3 if a node was not checked; otherwise 0.
 */
export function previewExitCode(preview: Preview, failOn: string): number {
  const {verdict, nodesChecked, nodesUnread} = summarizePreview(preview);
  const {changes, requirements, advice} = preview;
  const isServedElse = changes.some(({effect, cause}) => effect === 'lost' || (effect === 'gained' && cause.id !== 'new-service'));
  const fails = failOn === 'any' ? verdict === 'changes' : isServedElse || requirements.some(isBlocking) || advice.some(isLoss);
  if (failOn !== 'never' && fails) return 1;
  return nodesUnread > 0 || nodesChecked === 0 ? 3 : 0;
}
