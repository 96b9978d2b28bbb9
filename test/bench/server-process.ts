import {type ChildProcess, fork} from 'node:child_process';
import {fileURLToPath} from 'node:url';

/** An API server in a process of its own. */
export interface ServerProcess<Ready> extends Disposable {
  readonly ready: Ready;
  /** Sends it a message and resolves to what it answers. */
  ask<Answer>(): Promise<Answer>;
}

/** `file` lies in this folder. Rejects when the server ends before it is ready. */
export async function startServer<Ready>(file: string, args: readonly string[]): Promise<ServerProcess<Ready>> {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), args);
  const ready = await messageOf<Ready>(child);
  return {
    ready,
    ask<Answer>() {
      child.send('');
      return messageOf<Answer>(child);
    },
    [Symbol.dispose]: () => child.disconnect(),
  };
}

function messageOf<Message>(child: ChildProcess): Promise<Message> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null) => reject(new Error(`the API server ended with ${code}`));
    child.once('exit', ended);
    child.once('message', message => {
      child.off('exit', ended);
      resolve(message as Message);
    });
  });
}
