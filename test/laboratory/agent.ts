import {once} from 'node:events';
import {createConnection, createServer} from 'node:net';
import process from 'node:process';
import {setTimeout} from 'node:timers/promises';

/** A connection to open. */
export interface Attempt {
  readonly source: string | null;
  readonly destination: string;
  readonly port: number;
}

/** What this program obeys in its namespace: the orders of `Namespace` that the laboratory gives. */
type Order =
  | {readonly kind: 'write'}
  | {readonly kind: 'listen'; readonly ports: readonly number[]}
  | {readonly kind: 'send'; readonly flows: readonly Attempt[]; readonly patience: number};

const [, , name = ''] = process.argv;

process.on('disconnect', () => process.exit());
process.on('message', (order: Order) => {
  obey(order).then(
    done => process.send?.({done}),
    (error: Error) => process.send?.({error: String(error.stack)}),
  );
});
process.send?.({done: null});

async function obey(order: Order): Promise<unknown> {
  if (order.kind === 'listen') await Promise.all(order.ports.map(listen));
  return order.kind === 'send' ? Promise.all(order.flows.map(flow => connect(flow, order.patience))) : null;
}

/** Answers with a line: who it is, and which source it saw. */
async function listen(port: number): Promise<void> {
  const server = createServer(socket => {
    socket.on('error', () => undefined).end(`${name} ${(socket.remoteAddress ?? '').replace('::ffff:', '')}\n`);
  });
  await once(server.listen({host: '::', port, backlog: 4096}), 'listening');
}

/** The line of the endpoint; an error code, or `silent` when nothing arrived in time. */
async function connect({source, destination, port}: Attempt, patience: number): Promise<string> {
  const {promise, resolve} = Promise.withResolvers<string>();
  const socket = createConnection({host: destination, port, ...(source === null ? {} : {localAddress: source})});
  socket.once('data', data => resolve(data.toString().trim()));
  socket.once('end', () => resolve('closed'));
  socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  const timer = new AbortController();
  const sight = await Promise.race([promise, setTimeout(patience, 'silent', {signal: timer.signal})]);
  timer.abort();
  // Leaves no connection behind that would be in the way of the next one with these ports.
  socket.resetAndDestroy();
  return sight;
}
