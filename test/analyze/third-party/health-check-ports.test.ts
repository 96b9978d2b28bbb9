/** Health checks of load balancers that rules of other programs keep out. */
import {describe, expect, test} from 'vitest';
import {nftScenario} from '../../nft-scenario.ts';
import {findingsOf, type Scenario, scenario} from '../../scenario.ts';

const found = (given: Scenario) =>
  findingsOf(given.snapshot(), {nodes: name => name === 'node-a'})
    .filter(({code}) => code === 'ST219')
    .map(({severity, message}) => `${severity}: ${message}`);

/** A firewall whose chain comes first of INPUT, as after a reload. */
async function firewall(...rules: readonly string[]): Promise<Scenario> {
  const given = await scenario();
  const dump = given.rules('node-a');
  dump.declare('filter', 'IN_public');
  dump.insertBefore(['-A INPUT -j KUBE-FIREWALL'], '-A INPUT -j IN_public');
  for (const rule of rules) dump.append('filter', `-A IN_public ${rule}`);
  return given;
}

const ofCloud = (given: Scenario): void =>
  given.api(({services}) => ({
    services: (services ?? []).map(service =>
      service.spec?.healthCheckNodePort === undefined
        ? service
        : {
            ...service,
            metadata: {
              ...service.metadata,
              annotations: {'service.beta.kubernetes.io/azure-load-balancer-health-probe-protocol': 'http'},
            },
          },
    ),
  }));

const established = '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT';
const ssh = '-p tcp -m tcp --dport 22 -j ACCEPT';

describe('a firewall that refuses what comes to the node', () => {
  test('before the rule that accepts health checks is said, as an info where no load balancer may ask', async () => {
    const given = await firewall(established, ssh, '-j REJECT --reject-with icmp-host-prohibited');
    expect(found(given)).toEqual([expect.stringMatching(/^info: health checks at port \d+ .* are refused by a third-party rule: /)]);
  });

  test('is a warning where the load balancer is that of a cloud', async () => {
    const given = await firewall(established, ssh, '-j DROP');
    ofCloud(given);
    expect(found(given)).toEqual([expect.stringMatching(/^warning: health checks at port \d+ .* are dropped by a third-party rule: /)]);
  });

  test('is not, where it lets somebody in who may be the load balancer', async () => {
    const given = await firewall(established, ssh, '-s 35.191.0.0/16 -j ACCEPT', '-j DROP');
    ofCloud(given);
    expect(found(given)).toEqual([]);
  });

  test('is not, where it comes after the rule of kube-proxy', async () => {
    const given = await scenario();
    given.rules('node-a').append('filter', '-A INPUT -j DROP');
    ofCloud(given);
    expect(found(given)).toEqual([]);
  });

  test('in a table of nftables is said in iptables and in nftables mode, where kube-proxy accepts nothing', async () => {
    const table =
      'table inet firewalld {\n\tchain in {\n\t\ttype filter hook input priority 10; policy drop;\n\t\tct state established,related accept\n\t\tiif "lo" accept\n\t\ttcp dport 22 accept\n\t}\n}\n';
    const beside = await scenario();
    beside.file('node-a', 'nft.txt', table);
    for (const given of [beside, await nftScenario(text => text + table)]) {
      ofCloud(given);
      expect(found(given)).toEqual([
        expect.stringMatching(/^warning: .*no rule accepts them and the policy of inet firewalld\/in is DROP/),
      ]);
    }
  });
});
