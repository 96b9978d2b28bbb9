import {createConnection, createServer, type Socket} from 'node:net';
import process from 'node:process';

/** What a program in the namespace of a node is to do: answer, or connect. */
export type ConnectionsOrder =
  | {readonly kind: 'serve'; readonly port: number}
  /** `hold` of the connections stay open until the program ends. */
  | {readonly kind: 'connect'; readonly address: string; readonly port: number; readonly connections: number; readonly hold: number};

// This file is the program. A server prints the address that each client connected to, a client the number of its connections.
if (process.argv[1] === import.meta.filename) run(JSON.parse(process.argv[2] ?? '') as ConnectionsOrder);

function run(order: ConnectionsOrder): void {
  process.stdin.resume().on('end', () => process.exit());
  if (order.kind === 'serve') serve(order.port);
  else void connect(order);
}

function serve(port: number): void {
  const server = createServer(socket => {
    process.stdout.write(`${socket.localAddress?.replace('::ffff:', '')}\n`);
    socket.on('error', () => {}).resume();
  });
  server.listen({port, host: '::', backlog: 1000}, () => process.stdout.write('ready\n'));
}

async function connect({address, port, connections, hold}: Extract<ConnectionsOrder, {kind: 'connect'}>): Promise<void> {
  for (let number = 0; number < connections; number++) {
    const socket = await opened(address, port);
    if (number >= hold) await closed(socket);
  }
  process.stdout.write('done\n');
  if (hold === 0) process.exit();
}

function opened(host: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({host, port}, () => resolve(socket));
    socket.on('error', reject).resume();
  });
}

function closed(socket: Socket): Promise<void> {
  return new Promise(resolve => socket.once('close', () => resolve()).end());
}
