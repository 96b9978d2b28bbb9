/** Endpoints that kubectl lists are compared with rules in the same text. */
import {describe, expect, test} from 'vitest';
import {headlineOf} from '../../src/render/verdict-line.ts';
import {said, snapshotOfText, traceText} from './trace-text.ts';

const rulesOf = (service: string, address: string, chain = 'KUBE-SVC-TCOU7JCQXEZGVUNU') =>
  [
    '$ sudo iptables-save | grep web',
    `-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "${service}:http cluster IP" -m tcp --dport 80 -j ${chain}`,
    `-A ${chain} -m comment --comment "${service}:http -> ${address}" -j KUBE-SEP-5V2UTJDVBQ73MZHD`,
    `-A KUBE-SEP-5V2UTJDVBQ73MZHD -p tcp -m comment --comment "${service}:http" -m tcp -j DNAT --to-destination ${address}`,
    '',
  ].join('\n');
const described = (endpoints: string) =>
  `$ kubectl -n shop describe svc web\nName:       web\nNamespace:  shop\nType:       ClusterIP\nPort:       http  80/TCP\nEndpoints:  ${endpoints}\n\n`;
const got = (endpoints: string) => `$ kubectl get endpoints -n shop\nNAME   ENDPOINTS   AGE\nweb    ${endpoints}   3d\n\n`;

const stale = (text: string) =>
  traceText(snapshotOfText(text))
    .findings.filter(({code}) => code === 'ST203')
    .map(({severity, endpoint, message}) => `${severity} ${endpoint}: ${message}`);

describe.each([
  ['described', described],
  ['listed', got],
])('a Service whose endpoints are %s', (_, list) => {
  test('has a stale one in the rules, wherever the list stands', () => {
    const found = [
      'error 10.244.1.9:80: traffic goes to 10.244.1.9:80, which is none of the endpoints that kubectl lists in the same text (10.244.1.5:80)',
    ];
    expect(stale(list('10.244.1.5:80') + rulesOf('shop/web', '10.244.1.9:80'))).toEqual(found);
    expect(stale(rulesOf('shop/web', '10.244.1.9:80') + list('10.244.1.5:80'))).toEqual(found);
  });

  test.each([
    ['the rules send to one of them', '10.244.1.5:80,10.244.1.9:80'],
    ['kubectl leaves some out', '10.244.1.5:80,10.244.1.6:80,10.244.1.7:80 + 1 more...'],
    ['there is none, as when those that end are the last', '<none>'],
    ['they are of the other family', '[fd00::5]:80'],
  ])('has none where %s', (__, endpoints) => {
    expect(stale(list(endpoints) + rulesOf('shop/web', '10.244.1.9:80'))).toEqual([]);
  });
});

test('rules for a Service without a ready endpoint in a list are told with doubt: pods that end may still serve', () => {
  const rules = rulesOf('shop/web', '10.244.1.9:80');
  const served = /^shop\/web:http sends to 10\.244\.1\.9:80, and kubectl lists no ready endpoint for it: .*, or these pods are about to go/;
  for (const list of [described, got]) expect(said(list('<none>') + rules)).toMatch(served);
  const both = rules + rulesOf('test/web', '10.244.1.7:80', 'KUBE-SVC-UCOU7JCQXEZGVUNU');
  expect(said(`NAME   ENDPOINTS   AGE\nweb    <none>      3d\n\n${both}`)).not.toContain('no ready endpoint');
});

test('the trace draws it as stale, and the first line says it', () => {
  const report = traceText(snapshotOfText(described('10.244.1.5:80') + rulesOf('shop/web', '10.244.1.9:80')));
  expect(headlineOf(report)).toMatch(
    /^from rules, and the endpoints that kubectl lists; shop\/web on rules\.txt: traffic goes to 10\.244\.1\.9:80, which is no usable endpoint \(ST203\)/,
  );
  expect(report.traces.flatMap(({entries}) => entries.flatMap(({endpoints}) => endpoints.map(({mark}) => mark)))).toEqual(['stale']);
});

test('a list is not that of a Service in another namespace, nor of a Local policy', () => {
  expect(stale(described('10.244.1.5:80') + rulesOf('test/web', '10.244.1.9:80'))).toEqual([]);
  const both = rulesOf('shop/web', '10.244.1.5:80') + rulesOf('test/web', '10.244.1.9:80', 'KUBE-SVC-UCOU7JCQXEZGVUNU');
  expect(stale(got('10.244.1.5:80') + both)).toEqual([]);
  expect(stale(got('10.244.1.5:80') + rulesOf('shop/web', '10.244.1.9:80', 'KUBE-SVL-TCOU7JCQXEZGVUNU'))).toEqual([]);
});

test('the target port of a Service is compared with the port that its pods declare, beside rules that serve it', () => {
  const service =
    'kind: Service\nmetadata:\n  name: web\n  namespace: shop\nspec:\n  selector:\n    app: web\n  ports:\n  - port: 80\n    targetPort: 9000\n';
  const pod = (port: number) =>
    `---\nkind: Pod\nmetadata:\n  name: web-0\n  namespace: shop\n  labels:\n    app: web\nspec:\n  containers:\n  - image: shop/web\n    ports:\n    - containerPort: ${port}\n`;
  const text = (port: number) => `${rulesOf('shop/web', '10.244.1.5:9000')}\n${service}${pod(port)}`;
  expect(said(text(8000))).toContain('shop/web sends to port 9000 (targetPort), and Pod web-0 declares 8000');
  expect(said(text(9000))).not.toContain('declares');
});
