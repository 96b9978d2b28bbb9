import {expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, said, saying, scenario} from '../scenario.ts';

const place = {code: 'ST502', severity: 'warning', node: 'node-b'};

test('the capture of a node that ran in IPVS mode before has this finding with what is left', async () => {
  const found = findingsOf(await snapshotOf('faults/ipvs-leftovers')).filter(({node}) => node === 'node-a');
  expect(found.map(said)).toEqual([
    {...place, node: 'node-a', message: saying('ipvs mode left something behind: 61 virtual servers, 40 addresses on kube-ipvs0')},
  ]);
});

test('one virtual server is enough', async () => {
  const given = await scenario();
  given.file('node-b', 'ipvsadm-save', '-A -t 10.96.1.1:80 -s rr\n-a -t 10.96.1.1:80 -r 10.244.12.4:8080 -m -w 1\n');
  expect(given.news()).toEqual([{...place, message: saying('ipvs mode left something behind: 1 virtual servers')}]);
});

test('an nftables table of kube-proxy’s beside its iptables rules is reported', async () => {
  const given = await scenario();
  given.file('node-b', 'nft.json', '{"nftables":[{"table":{"family":"ip","name":"kube-proxy","handle":1}}]}');
  expect(given.news()).toEqual([{...place, message: saying('nftables mode left something behind')}]);
});

test('nftables tables of others, such as those of iptables-nft, stay silent', async () => {
  const given = await scenario();
  given.file('node-b', 'nft.json', '{"nftables":[{"table":{"family":"ip","name":"nat","handle":1}}]}');
  expect(given.news()).toEqual([]);
});

test('an IPVS that was asked and holds nothing stays silent', async () => {
  const given = await scenario();
  given.file('node-b', 'ipvsadm-save', '');
  given.file('node-b', 'kube-ipvs0.json', '[]');
  expect(given.news()).toEqual([]);
});
