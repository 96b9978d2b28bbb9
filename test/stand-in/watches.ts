import type {ServerResponse} from 'node:http';
import {type ObjectStore, type StoreEvent, typed} from './object-store.ts';
import type {ResourceRequest} from './resources.ts';
import {isSelected} from './selectors.ts';
import {type Answer, failure} from './status.ts';

/** An open watch, as a test may handle it. */
export interface OpenWatch {
  readonly plural: string;
  /** Sends a bookmark with the version up to which all events were sent. */
  bookmark(): void;
  /** Ends it as the API server does when its time is up. */
  end(): void;
  /** Breaks the connection off. */
  break(): void;
  /** Says no more, although the connection stays. */
  mute(): void;
  /** Ends it with a Status in an event, as when the watch cache has gone past. */
  fail(code: number): void;
}

/** The watches of the stand-in: JSON lines in chunks, from a revision on. */
export class Watches {
  readonly open: OpenWatch[] = [];
  readonly #store: ObjectStore;

  constructor(store: ObjectStore) {
    this.#store = store;
  }

  /** Begins a watch; the answer is an error where it cannot. */
  answer(request: ResourceRequest, query: URLSearchParams, response: ServerResponse): Answer | null {
    const since = Number(query.get('resourceVersion') ?? 0);
    const waiting: StoreEvent[] = [];
    let take = (event: StoreEvent): void => void waiting.push(event);
    const following = this.#store.follow(since, event => take(event));
    if (following === null) return failure(410, `too old resource version: ${since} (${this.#store.revision})`);
    response.writeHead(200, {'content-type': 'application/json', 'cache-control': 'no-cache, private'});
    response.flushHeaders();
    const send = (type: string, object: object) => void response.write(`${JSON.stringify({type, object})}\n`);
    take = ({plural, type, object}) => {
      if (plural !== request.resource || (request.namespace !== '' && object.metadata.namespace !== request.namespace)) return;
      if (isSelected(object, query)) send(type, typed(request, object));
    };
    for (const event of waiting) take(event);
    const timer = setTimeout(() => watch.end(), Number(query.get('timeoutSeconds') ?? 1800) * 1000).unref();
    const watch: OpenWatch = {
      plural: request.resource,
      bookmark: () =>
        send('BOOKMARK', typed(request, {metadata: {resourceVersion: String(this.#store.revision), creationTimestamp: null}})),
      end: () => void response.end(),
      break: () => void response.socket?.destroy(),
      mute: () => following.stop(),
      fail: code => {
        following.stop();
        send('ERROR', failure(code, 'The resourceVersion for the provided watch is too old.').body);
        response.end();
      },
    };
    this.open.push(watch);
    response.on('close', () => {
      clearTimeout(timer);
      following.stop();
      this.open.splice(this.open.indexOf(watch), 1);
    });
    return null;
  }
}
