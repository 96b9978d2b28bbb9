import {createHash} from 'node:crypto';
import {describe, expect, test} from 'vitest';
import {chainName, endpointChainName, parseChainName, servicePortHash} from '../../../src/expect/iptables/chain-names.ts';

describe('the names of chains', () => {
  // Names that kube-proxies gave on clusters of others, or that upstream's own tests hold.
  test.each([
    ['default/kubernetes:https', 'TCP', 'NPX46M4PTMTKRN6Y'],
    ['kube-system/kube-dns:dns', 'UDP', 'TCOU7JCQXEZGVUNU'],
    ['kube-system/kube-dns:dns-tcp', 'TCP', 'ERIFXISQEP7F7OF4'],
    ['kube-system/kube-dns:metrics', 'TCP', 'JD5MR3NA4I4DYORP'],
    ['default/nginx:http', 'TCP', 'P4Q3KNUAWJVP4ILH'],
    ['default/hostnames:', 'TCP', 'NWV5X2332I4OT4T3'],
    ['default/hostnames', 'TCP', 'YN5D6RYVEVZOH44Q'],
    ['default/mysql-service:', 'TCP', '67RL4FN6JRUPOJYM'],
    ['ns1/svc1:p80', 'TCP', 'XPGD46QRK7WJZT7O'],
    ['ns5/svc5:p80', 'TCP', 'NUKIZ6OKUXPJNT4C'],
  ])('of %s over %s share %s', (name, protocol, hash) => {
    expect(servicePortHash(name, protocol)).toBe(hash);
  });

  test.each([
    ['default/nginx:http', '192.168.196.131:80', '5V2UTJDVBQ73MZHD'],
    ['default/nginx:http', '192.168.219.77:80', '6KKQPHGRLUODOJRX'],
    ['default/hostnames:', '10.76.0.9:9376', 'EV2NQKURMPKCP5UI'],
    ['default/hostnames:', '10.76.0.10:9376', 'BWZ646KDVNVKXICT'],
    ['default/mysql-service:', '192.168.125.129:3306', 'ID6YWIT3F6WNZ47P'],
    ['default/kubernetes:https', '[fd00::1]:6443', '7YRPYSN65VLT7QRK'],
    ['ns1/svc1:p80', '10.180.0.1:80', 'SXIVWICOYRO3J4NJ'],
  ])('of an endpoint of %s at %s', (name, hostPort, hash) => {
    expect(endpointChainName(name, 'TCP', hostPort)).toBe(`KUBE-SEP-${hash}`);
  });

  test('the name in an edited dump differs from that of its endpoint', () => {
    // From a page of 2016: KUBE-SEP-IN2YML2VIFH5RO2T with 192.168.125.131:3306.
    expect(endpointChainName('default/mysql-service:', 'TCP', '192.168.125.131:3306')).toBe('KUBE-SEP-MDJPMLAM6OPI7T2O');
  });

  test('contain the protocol in lower case', () => {
    expect(servicePortHash('a/b', 'TCP')).toBe(servicePortHash('a/b', 'tcp'));
    expect(new Set(['TCP', 'UDP', 'SCTP'].map(protocol => servicePortHash('a/b', protocol))).size).toBe(3);
  });

  test('follow the definition: the first 16 characters of sha256 in base32', () => {
    for (let index = 0; index < 200; index++) {
      const text = `ns-${index}/svc:port`;
      expect(servicePortHash(text, 'UDP')).toBe(base32(createHash('sha256').update(`${text}udp`).digest()).slice(0, 16));
    }
  });

  test('have a prefix that shows their purpose', () => {
    expect(chainName('FW', 'NUKIZ6OKUXPJNT4C')).toBe('KUBE-FW-NUKIZ6OKUXPJNT4C');
    expect(parseChainName('KUBE-FW-NUKIZ6OKUXPJNT4C')).toEqual({role: 'FW', hash: 'NUKIZ6OKUXPJNT4C'});
  });

  test.each([
    'KUBE-SERVICES',
    'KUBE-SVC-NUKIZ6OKUXPJNT4',
    'KUBE-SVC-NUKIZ6OKUXPJNT4C1',
    'KUBE-SVC-nukiz6okuxpjnt4c',
    'KUBE-NWPLCY-NUKIZ6OKUXPJNT4C',
    'X-KUBE-SVC-NUKIZ6OKUXPJNT4C',
  ])('%s is not the name of a Service port or endpoint', name => {
    expect(parseChainName(name)).toBeNull();
  });
});

/** RFC 4648, bit by bit. */
function base32(bytes: Buffer): string {
  const bits = [...bytes].map(byte => byte.toString(2).padStart(8, '0')).join('');
  return (bits.match(/.{5}/g) ?? []).map(five => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[Number.parseInt(five, 2)]).join('');
}
