import {expect, test} from 'vitest';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {scenario} from '../scenario.ts';

test('a client outside whose packet is sent to another node unmasqueraded is not served, also where no routes were read', async () => {
  const given = await scenario();
  given.rules('node-a').deleteAll('-A KUBE-EXT-', '-j KUBE-MARK-MASQ');
  const ask = (source: string) => {
    const asked = {source, destination: '172.18.0.11', port: '30080'};
    const [answer] = askNodes(asked, given.snapshot(), name => name === 'node-a');
    return answer?.outcomes.map(({verdict, lost, onward}) => [onward?.node ?? 'node-a', verdict, lost]);
  };
  expect(ask('203.0.113.9')).toEqual([
    ['node-a', 'accept', undefined],
    ['node-a', 'accept', undefined],
    ['node-b', 'drop', 'reply'],
  ]);
  expect(ask('10.244.11.20')?.map(([, verdict]) => verdict)).toEqual(['accept', 'accept', 'accept']);
});

test('nothing is said of the answers to a pod of another node, whose packets meet the rules there', async () => {
  const given = await scenario();
  const asked = {source: '10.244.12.4', destination: '10.96.1.1', port: '80'};
  const answers = askNodes(asked, given.snapshot(), name => name === 'node-a');
  expect(answers.flatMap(({outcomes}) => outcomes).map(({verdict}) => verdict)).not.toContain('drop');
});
