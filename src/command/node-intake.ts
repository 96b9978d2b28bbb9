import type {CollectedNode} from '../collect/collect-node.ts';
import type {Diagnosis} from '../diagnosis/diagnosis.ts';
import type {Problem} from '../model/snapshot.ts';

/** Gives a node that was read, or could not be, to the diagnosis. Returns what is to be said of a node that was read in part. */
export function takeNode(node: CollectedNode, diagnosis: Diagnosis): readonly Problem[] {
  if (node.status === 'unread' && !node.files.includes('nft.json')) {
    diagnosis.addUnread({name: node.name, reason: node.problems.map(({message}) => message).join('; '), remedy: whatToDo});
    return [];
  }
  diagnosis.add(node);
  return node.problems.map(problem => ({...problem, remedy: whatToDo}));
}

const whatToDo =
  'Read the node in another way (--transport), give it more time (--node-timeout), or leave it out with --node or --node-selector.';
