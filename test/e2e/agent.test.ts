import {expect, test} from 'vitest';
import {certificateFile} from '../stand-in/certificates.ts';
import {svcTrace} from '../svc-trace.ts';

const [cert, key, otherKey] = ['server.crt', 'server.key', 'client.key'].map(certificateFile) as [string, string, string];

test.each<[string, readonly string[], string]>([
  ['a certificate without its key', ['--tls-cert-file', cert], '--tls-cert-file needs --tls-private-key-file'],
  ['a key without its certificate', ['--tls-private-key-file', key], '--tls-private-key-file needs --tls-cert-file'],
  [
    'a certificate for plain HTTP',
    ['--insecure-http', '--tls-cert-file', cert, '--tls-private-key-file', key],
    '--insecure-http has no certificate: use it without --tls-cert-file and --tls-private-key-file',
  ],
  [
    'the key of another certificate',
    ['--tls-cert-file', cert, '--tls-private-key-file', otherKey],
    `cannot serve: the key in ${otherKey} is not that of the certificate in ${cert}`,
  ],
  [
    'a file that is not a certificate',
    ['--tls-cert-file', key, '--tls-private-key-file', key],
    `cannot serve: ${key} contains no certificate (PEM)`,
  ],
])('agent refuses %s', async (_, args, message) => {
  const flags = ['--node', 'node-a', '--listen', '127.0.0.1:0', '--server', 'https://127.0.0.1:1'];
  const {stdout, stderr, exitCode} = await svcTrace(['agent', ...flags, ...args], {env: {KUBECONFIG: '', NO_COLOR: '1'}});
  expect({stdout, stderr: stderr.replaceAll(/\s*\n[ ›]*/g, ' '), exitCode}).toEqual({stdout: '', stderr: `Error: ${message}`, exitCode: 2});
});
