/** Healthy nodes of which a part was read: where the dump ends says nothing of them. */
import {expect, test} from 'vitest';
import {diagnose} from '../../../src/diagnose.ts';
import {needsAction, scenario} from '../../scenario.ts';

const settingsFiles = ['configz.json', 'kube-proxy-config.yaml', 'kube-proxy-version', 'healthz.json'];

test.each([
  {capture: '1.31', file: 'nft.txt'},
  {capture: '1.33', file: 'nft.json'},
  {capture: '1.36', file: 'nft.txt'},
  {capture: '1.36', file: 'nft.json'},
])(
  'the truncated $file of $capture is no fault of the node, wherever it ends and whatever else is known of the node',
  async ({capture, file}) => {
    const other = file === 'nft.txt' ? 'nft.json' : 'nft.txt';
    const given = await scenario(`nftables/${capture}`);
    const whole = given.rules('node-a', file).toString();
    const places = [2, 3, 4, 7, 10, 13, 15].map(part => Math.floor((whole.length * part) / 16));
    if (file === 'nft.txt') places.push(whole.indexOf('table ip6') + 12, whole.indexOf('chain nat-output {') + 40);
    for (const place of places) {
      const cut = await scenario(`nftables/${capture}`);
      cut.file('node-a', other, null);
      cut.file('node-a', file, whole.slice(0, place));
      for (const withSettings of [true, false]) {
        if (!withSettings) for (const name of settingsFiles) cut.file('node-a', name, null);
        const {findings, nodes} = diagnose(cut.snapshot(), {toolVersion: '', nodes: name => name === 'node-a'});
        const codes = findings.filter(finding => finding.node === 'node-a' && needsAction(finding)).map(({code}) => code);
        expect({place, withSettings, codes, status: nodes[0]?.status}).toEqual({place, withSettings, codes: ['ST506'], status: 'unread'});
      }
    }
  },
);
