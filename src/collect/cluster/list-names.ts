import type {ObjectMeta} from '../../model/api-objects.ts';
import type {KubeApi} from '../kube/kube-api.ts';

/** The names of the first objects of a list: more would not be read by anyone. Rejects with an ApiError. */
export async function listNames(api: KubeApi, path: string): Promise<readonly ObjectMeta[]> {
  const {items} = await api.get<{readonly items?: readonly {readonly metadata: ObjectMeta}[] | null}>(path, {limit: '500'});
  return (items ?? []).map(({metadata}) => metadata);
}
