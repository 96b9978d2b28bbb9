import {execFileSync} from 'node:child_process';
import {existsSync, readFileSync} from 'node:fs';
import {createServer as createHttpServer} from 'node:http';
import {createConnection, createServer, type Server, type Socket} from 'node:net';
import process from 'node:process';

/** What listens on 127.0.0.1 of a node. */
export interface NodeServers {
  /** By port, then by path: the file with what kube-proxy answers. */
  readonly answers: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** A port that leads out of the network namespace, to a UNIX socket: sockets on disk know no namespaces. */
  readonly forward: TracePath;
  /** The same the other way: who connects to the socket comes out at this port of the namespace. */
  readonly inward: TracePath;
}

interface TracePath {
  readonly port: number;
  readonly socket: string;
}

// This file is the program that runs in the namespace of a node, until the test that started it lets go of it.
if (process.send !== undefined && process.argv[1] === import.meta.filename) {
  process.on('disconnect', () => process.exit());
  execFileSync('ip', ['link', 'set', 'lo', 'up']);
  await serve(JSON.parse(process.argv[2] ?? '') as NodeServers);
  process.send({done: null});
}

async function serve({answers, forward, inward}: NodeServers): Promise<void> {
  const kubeProxy = Object.entries(answers).map(([port, paths]) => listening(httpServer(paths), Number(port)));
  const entrance = createServer(socket => join(socket, createConnection(inward.port, '127.0.0.1')));
  const open = new Promise<void>((resolve, reject) => entrance.once('error', reject).listen(inward.socket, resolve));
  await Promise.all([...kubeProxy, listening(forwarder(forward.socket), forward.port), open]);
}

function httpServer(paths: Readonly<Record<string, string>>): Server {
  return createHttpServer(({url = ''}, response) => {
    const file = paths[url];
    const body = file === undefined || !existsSync(file) ? null : readFileSync(file);
    response.writeHead(body === null ? 404 : 200, {'content-type': 'text/plain; charset=utf-8'});
    response.end(body ?? '404 page not found\n');
  });
}

function forwarder(path: string): Server {
  return createServer(socket => join(socket, createConnection(path)));
}

function join(socket: Socket, other: Socket): void {
  socket.on('error', () => other.destroy()).on('close', () => other.destroy());
  other.on('error', () => socket.destroy()).on('close', () => socket.destroy());
  socket.pipe(other).pipe(socket);
}

function listening(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject).listen(port, '127.0.0.1', resolve);
  });
}
