import {ApiError, type ListResult} from './kube-api.ts';

interface ListPage<T> {
  readonly metadata?: {readonly resourceVersion?: string; readonly continue?: string};
  /** Null for an empty list of some API servers. */
  readonly items?: readonly T[] | null;
}

const pageSize = '500';
const maxStarts = 4;

/** Reads a list page by page. If the next page has expired (410), the list is read again from the start, so that it is consistent. */
export async function listPages<T>(readPage: (query: Readonly<Record<string, string>>) => Promise<ListPage<T>>): Promise<ListResult<T>> {
  for (let start = 1; ; start++) {
    try {
      return await readAll(readPage);
    } catch (error) {
      if (start === maxStarts || !(error instanceof ApiError && error.status === 410)) throw error;
    }
  }
}

async function readAll<T>(readPage: (query: Readonly<Record<string, string>>) => Promise<ListPage<T>>): Promise<ListResult<T>> {
  const pages: (readonly T[])[] = [];
  for (let next = ''; ; ) {
    const {metadata, items} = await readPage({limit: pageSize, ...(next === '' ? {} : {continue: next})});
    pages.push(items ?? []);
    next = metadata?.continue ?? '';
    if (next === '') return {items: pages.flat(), resourceVersion: metadata?.resourceVersion ?? ''};
  }
}
