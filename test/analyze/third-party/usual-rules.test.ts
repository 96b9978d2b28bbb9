import process from 'node:process';
import {describe, expect, test} from 'vitest';
import type {Finding} from '../../../src/model/finding.ts';
import {needsAction, type Scenario} from '../../scenario.ts';
import {describeWith} from '../../require.ts';
import {thirdPartyRules, ipsets, loadMerged, mergedDump, scenarioWith, timeless} from './merge.ts';
import {someOf} from '../../cases.ts';

const programs = thirdPartyRules();

describe.each(someOf(programs))('the usual rules of $name', ({name, capture}) => {
  test('need no action', async () => {
    const given = await scenarioWith({name, capture});
    expect(faultsOf(given)).toEqual([]);
  });

  // Only some of them match by ipsets at all.
  if (ipsets(name) !== null)
    test('need no action if the ipsets were not read, either', async () => {
      const given = await scenarioWith({name, capture});
      given.file('node-a', 'ipset-save', null);
      expect(faultsOf(given)).toEqual([]);
    });

  test('need no action if the interfaces of the node were not read, either', async () => {
    const given = await scenarioWith({name, capture});
    given.file('node-a', 'addresses.json', null);
    expect(faultsOf(given)).toEqual([]);
  });
});

/** The errors and warnings of node-a that are about its rules. */
function faultsOf(given: Scenario): readonly Finding[] {
  const findings = given.findings({nodes: node => node === 'node-a'});
  return findings.filter(finding => needsAction(finding) && isAboutRules(finding));
}

function isAboutRules({code}: {readonly code: string}): boolean {
  return /^ST[2-5]/.test(code);
}

describeWith(['root', 'netns', 'iptables-nft-restore', 'ipset'], 'the fixtures are what a kernel gives back', () => {
  test.each(someOf(programs))('$name', rules => {
    const {dump, leftOut} = loadMerged(rules);
    for (const rule of leftOut) process.stderr.write(`${rules.name}: this kernel does not know the match of: ${rule}\n`);
    const kept = timeless(mergedDump(rules.name));
    expect(timeless(dump).split('\n')).toEqual(kept.split('\n').filter(line => !leftOut.includes(line)));
  });
});
