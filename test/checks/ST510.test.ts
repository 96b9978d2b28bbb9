import {expect, test} from 'vitest';
import type {ServiceObject} from '../../src/model/api-objects.ts';
import {service} from '../cluster.ts';
import {nftScenario} from '../nft-scenario.ts';
import {containing, type FindingSummary} from '../scenario.ts';

const long = `shop/${'w'.repeat(120)}`;

test('a Service without endpoints whose name nft rejects prevents its family from being synced', async () => {
  expect(await saidOf(web(long))).toEqual([
    {
      ...{code: 'ST510', severity: 'error', node: 'node-a', family: 'IPv4', subject: `${long}:http-admin`},
      message: containing('kube-proxy cannot write any change of IPv4', '136 bytes'),
    },
  ]);
});

test('a name of 128 bytes stays silent', async () => {
  expect(await saidOf(web(`shop/${'w'.repeat(112)}`))).toEqual([]);
});

test('kube-proxy 1.37 truncates the comment, and stays silent', async () => {
  expect(await saidOf(web(long), 'v1.37.0')).toEqual([]);
});

test('an overlong name with endpoints is a hazard for the day on which it has none', async () => {
  const given = await nftScenario();
  given.service('shop/web', object => ({...object, metadata: {...object.metadata, name: long.slice(5)}}));
  given.slices('shop/web', slice => ({
    ...slice,
    metadata: {...slice.metadata, labels: {...slice.metadata.labels, 'kubernetes.io/service-name': long.slice(5)}},
  }));
  const found = given.summaries().filter(({code, node}) => code === 'ST510' && node === 'node-a');
  expect(found.map(({severity}) => severity)).toEqual(['warning']);
});

function web(name: string): ServiceObject {
  return service(name, {clusterIP: '10.96.1.77', ports: [{name: 'http-admin', port: 80, protocol: 'TCP'}]});
}

async function saidOf(added: ServiceObject, version?: string): Promise<readonly FindingSummary[]> {
  const given = await nftScenario();
  given.addService(added);
  const options = version === undefined ? {} : {overrides: {version}};
  return given.summaries(options).filter(({code, node}) => code === 'ST510' && node === 'node-a');
}
