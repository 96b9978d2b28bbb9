import {createSocket} from 'node:dgram';
import {once} from 'node:events';
import {readdirSync, writeFileSync} from 'node:fs';
import {createConnection, createServer} from 'node:net';
import process from 'node:process';
import {setImmediate, setTimeout} from 'node:timers/promises';

/** One packet to send: the first of a connection of its own. */
export interface Flow {
  readonly protocol: 'tcp' | 'udp';
  readonly source: string;
  readonly sourcePort: number;
  readonly destination: string;
  readonly port: number;
}

/** What the sender saw: `connected`, `ECONNREFUSED` or another error, or nothing at all. */
export type Sight = 'connected' | 'silent' | (string & {});

/** What to do in a network namespace. */
export type Order =
  | {readonly kind: 'write'; readonly files: Readonly<Record<string, string>>}
  | {readonly kind: 'listen'; readonly ports: readonly number[]}
  | {readonly kind: 'send'; readonly flows: readonly Flow[]; readonly patience: number}
  | {readonly kind: 'forget'};

/** Flows that are under way at once. */
const window = 400;

// This file is also the program that runs in the namespace, until the test that started it lets go of it.
if (process.send !== undefined && process.argv[1] === import.meta.filename) {
  process.on('disconnect', () => process.exit());
  process.on('message', (order: Order) => {
    obey(order).then(
      done => process.send?.({done}),
      (error: Error) => process.send?.({error: String(error.stack)}),
    );
  });
  process.send({done: null});
}

async function obey(order: Order): Promise<unknown> {
  if (order.kind === 'write') for (const [path, text] of Object.entries(order.files)) writeFileSync(path, text);
  if (order.kind === 'listen') await Promise.all(order.ports.map(listen));
  if (order.kind === 'forget') forgetClients();
  return order.kind === 'send' ? send(order.flows, order.patience) : null;
}

/** Takes connections and datagrams on a port, so that none is refused for want of a listener. */
async function listen(port: number): Promise<void> {
  const server = createServer(socket => socket.on('error', () => undefined).end()).listen({host: '::', port});
  const socket = createSocket('udp6').bind({address: '::', port});
  await Promise.all([once(server, 'listening'), once(socket, 'listening')]);
}

/** Empties the lists of `-m recent`. */
function forgetClients(): void {
  const folder = '/proc/net/xt_recent';
  for (const name of readdirSync(folder)) writeFileSync(`${folder}/${name}`, '/\n');
}

async function send(flows: readonly Flow[], patience: number): Promise<readonly Sight[]> {
  const sights: Sight[] = [];
  for (let at = 0; at < flows.length; at += window) {
    const attempts = flows.slice(at, at + window).map(flow => (flow.protocol === 'tcp' ? connect(flow) : sendDatagram(flow)));
    await Promise.race([Promise.all(attempts.map(({sight}) => sight)), setTimeout(patience)]);
    // What has arrived by now is looked at before the sockets are closed.
    await setImmediate();
    for (const {giveUp} of attempts) giveUp();
    sights.push(...(await Promise.all(attempts.map(({sight}) => sight))));
  }
  return sights;
}

interface Attempt {
  readonly sight: Promise<Sight>;
  /** Closes the socket; what was not seen yet stays unseen. */
  giveUp(): void;
}

function connect({source, sourcePort, destination, port}: Flow): Attempt {
  const {promise, resolve} = Promise.withResolvers<Sight>();
  const socket = createConnection({host: destination, port, localAddress: source, localPort: sourcePort});
  socket.once('connect', () => resolve('connected'));
  socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  return {
    sight: promise,
    giveUp: () => {
      resolve('silent');
      socket.destroy();
    },
  };
}

function sendDatagram({source, sourcePort, destination, port}: Flow): Attempt {
  const {promise, resolve} = Promise.withResolvers<Sight>();
  const failed = (error: NodeJS.ErrnoException): void => resolve(error.code ?? error.message);
  const socket = createSocket(source.includes(':') ? 'udp6' : 'udp4');
  socket.on('error', failed);
  socket.bind({address: source, port: sourcePort}, () => {
    socket.connect(port, destination, () => socket.send('svc-trace', error => error && failed(error)));
  });
  let open = true;
  socket.once('close', () => {
    open = false;
  });
  return {
    sight: promise,
    giveUp: () => {
      resolve('silent');
      if (open) socket.close();
    },
  };
}
