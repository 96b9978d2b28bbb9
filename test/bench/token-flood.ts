// `token-flood.ts PORT SECONDS`: asks an agent for /metrics a thousand times a second, each time with another wrong token.
import https from 'node:https';
import process from 'node:process';

const [port, seconds] = process.argv.slice(2).map(Number);
const perSecond = 1000;
// Connections are kept as long as the agent keeps them.
const agent = new https.Agent({keepAlive: true, maxSockets: 64, rejectUnauthorized: false});
let sent = 0;
let answered = 0;

function ask(): void {
  const headers = {authorization: `Bearer wrong-${sent++}`};
  https
    .get({host: '127.0.0.1', port, path: '/metrics', headers, agent}, response => {
      answered++;
      response.resume();
    })
    .on('error', () => {});
}

const begun = Date.now();
const timer = setInterval(() => {
  const elapsed = (Date.now() - begun) / 1000;
  while (sent < Math.min(elapsed, seconds ?? 0) * perSecond) ask();
  if (elapsed < (seconds ?? 0)) return;
  clearInterval(timer);
  process.send?.({sent, answered}, () => process.exit());
}, 10);
