import {expect, test} from 'vitest';
import {redactDump} from '../../src/redact/redact-dump.ts';
import {Replacements} from '../../src/redact/replacements.ts';
import {oldNodes} from '../old-nodes.ts';
import {findingCounts, redacted} from './redacted.ts';

test.each(['1.5', '1.14', '1.18', '1.20'])('nodes of kube-proxy %s give the same findings', async version => {
  const snapshot = await oldNodes(version);
  expect(findingCounts(redacted(snapshot))).toEqual(findingCounts(snapshot));
});

test('a listing of iptables -L is rewritten as one of iptables -S, with names replaced', () => {
  const listing = `Chain KUBE-SERVICES (2 references)
target     prot opt source               destination
KUBE-SVC-AAAAAAAAAAAAAAAA  tcp  --  0.0.0.0/0            203.0.113.9         /* acme/web:http loadbalancer IP */ tcp dpt:80
`;
  const text = redactDump(Buffer.from(listing), new Replacements('key')).toString();
  expect(text).not.toMatch(/acme|web|203\.0\.113/);
  expect(text).toMatch(/^-A KUBE-SERVICES .*--comment "ns-\w+\/svc-\w+:http loadbalancer IP".* -j KUBE-SVC-[A-Z2-7]{16}$/m);
});
