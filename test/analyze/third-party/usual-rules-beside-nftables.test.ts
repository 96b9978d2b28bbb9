import {describe, expect, test} from 'vitest';
import {needsAction, summaryOf, type Scenario} from '../../scenario.ts';
import {programs, scenarioBesideNft} from './beside-nftables.ts';
import {someOf} from '../../cases.ts';

describe.each(someOf(programs))('beside kube-proxy in nftables mode, the usual rules of $name', ({name}) => {
  test('need no action', async () => {
    expect(loud(await scenarioBesideNft({name}))).toEqual([]);
  });
  test('need no action if the interfaces of the node were not read, either', async () => {
    const given = await scenarioBesideNft({name});
    given.file('node-a', 'addresses.json', null);
    expect(loud(given)).toEqual([]);
  });
});

function loud(given: Scenario): readonly unknown[] {
  return given
    .findings({nodes: node => node === 'node-a'})
    .filter(finding => needsAction(finding) && /^ST[2-9]/.test(finding.code))
    .map(summaryOf);
}
