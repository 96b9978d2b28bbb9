import {ApiError, type KubeApi} from '../kube/kube-api.ts';
import type {TokenOwner} from './review-token.ts';

const reviews = '/apis/authorization.k8s.io/v1/subjectaccessreviews';

/** Asks the API server whether a user may get a non-resource URL, such as `/metrics`. Rejects with an ApiError if there is no answer. */
export async function mayGet(api: KubeApi, {username, ...user}: TokenOwner, path: string, signal: AbortSignal): Promise<boolean> {
  const spec = {nonResourceAttributes: {path, verb: 'get'}, user: username, ...user};
  const review = {apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec};
  const {status} = await api.create<{readonly status?: {readonly allowed?: boolean; readonly denied?: boolean}}>(reviews, review, {
    signal,
    isReview: true,
  });
  if (status === undefined) throw new ApiError('the answer of the API server is no SubjectAccessReview', {status: null});
  return status.allowed === true && status.denied !== true;
}
