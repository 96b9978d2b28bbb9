import {createConnection, createServer, type Socket} from 'node:net';
import process from 'node:process';

/** What a program in the namespace of a node is to do: answer, or connect. */
export type ConnectionsOrder =
  | {readonly kind: 'serve'; readonly port: number}
  /** `hold` of the connections stay open until the program ends. */
  | {readonly kind: 'connect'; readonly address: string; readonly port: number; readonly connections: number; readonly hold: number}
  /** One connection an interval (ms), to each target in turn; `hold` others stay open, and say a word again and again. */
  | {readonly kind: 'load'; readonly targets: readonly string[]; readonly interval: number; readonly hold: number};

/** What a load prints every half second, once the connections that it holds are open. */
export interface LoadCounts {
  readonly served: number;
  readonly failed: number;
  /** Of the connections that are held: those that are open, and those that ended with an error. */
  readonly open: number;
  readonly broken: number;
}

// This file is the program. A server prints the address that each client connected to, a client the number of its connections.
if (process.argv[1] === import.meta.filename) run(JSON.parse(process.argv[2] ?? '') as ConnectionsOrder);

function run(order: ConnectionsOrder): void {
  process.stdin.resume().on('end', () => process.exit());
  if (order.kind === 'serve') serve(order.port);
  else if (order.kind === 'load') void load(order);
  else void connect(order);
}

function serve(port: number): void {
  const server = createServer(socket => {
    process.stdout.write(`${socket.localAddress?.replace('::ffff:', '')}\n`);
    // So that an answer is on its way at any time, also when rules are changed.
    socket.on('error', () => {}).on('data', data => setTimeout(() => socket.write(data), 90));
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

async function load({targets, interval, hold}: Extract<ConnectionsOrder, {kind: 'load'}>): Promise<void> {
  const counts = {served: 0, failed: 0, open: 0, broken: 0};
  const partsOf = (target: string) => [target.replace(/:\d+$/, ''), Number(target.replace(/^.*:/, ''))] as const;
  for (let number = 0; number < hold; number++) {
    const socket = await opened(...partsOf(targets[0] ?? ''));
    counts.open++;
    socket.on('error', () => counts.broken++).on('close', () => counts.open--);
    setInterval(() => socket.write('word'), interval);
  }
  process.stdout.write('ready\n');
  let turn = 0;
  setInterval(() => {
    const [address, port] = partsOf(targets[turn++ % targets.length] ?? '');
    const socket = createConnection({host: address, port, timeout: 600_000}, () => socket.end());
    socket.on('timeout', () => socket.destroy(new Error('no answer'))).on('error', () => {});
    socket.on('close', isError => (isError ? counts.failed++ : counts.served++)).resume();
  }, interval);
  setInterval(() => process.stdout.write(`${JSON.stringify(counts)}\n`), 500);
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
