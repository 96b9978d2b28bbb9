/** Objects of which a text has a part, in YAML without its kind, in words, or as kubectl describes them, are compared as whole ones are. */
import {describe, expect, test} from 'vitest';
import {noDump} from '../../src/parse/pasted/split-text.ts';

const answer = (text: string) => noDump(Buffer.from(`${text}\n`));

describe('a selector', () => {
  const template = (app: string) => `template:\n  metadata:\n    labels:\n      app: ${app}\n`;
  const selector = 'spec:\n  selector:\n    app: cart\n  ports:\n  - port: 80\n';
  const unmatched = 'no pod of this text has the labels of the selector of the Service (app=cart): the pod has app=basket';

  test.each([
    ['a part of a Service and one of a Deployment', `Our Service:\n${selector}\nand the Deployment:\n${template('basket')}`],
    ['parts with a margin', `${selector}\n\n${template('basket')}`.replaceAll(/^/gm, '    ')],
    ['parts that an answer quotes', `${selector}\nis yours, and\n\n${template('basket')}`.replaceAll(/^/gm, '> ')],
    ['parts with lines left out', `spec:\n  ...\n  selector:\n    app: cart\n\n${template('basket')}  ...\n`],
    ['words with code', 'The selector is `app: cart`, the pods are labeled "app=basket".'],
    [
      'lines of code with their marks',
      '`  selector:`\n`    app: cart`\n\n`template:`\n`  metadata:`\n`    labels:`\n`      app: basket`\n',
    ],
    [
      'what commands print of objects',
      '$ kubectl get svc cart -o jsonpath={.spec.selector}\n{"app":"cart"}\n$ kubectl get pod cart-0 -o yaml | grep -A1 labels\n  labels:\n    app: basket\n',
    ],
    ['fences below words', 'Services use:\n```yaml\nselector:\n  app: cart\n```\nPods have:\n```yaml\nlabels:\n  app: basket\n```\n'],
    ['clauses', 'The service selector of the one has `app: cart`. Their deployment gives it as a label: `app: basket` or none.'],
    ['labels below words about them', 'The selector is\n\n    app: cart\n\nand the labels of the pods are:\n\n    app: basket\n'],
  ])('is compared with labels in %s', (_, text) => {
    expect(answer(text)).toContain(unmatched);
    expect(answer(text.replaceAll('basket', 'cart'))).not.toContain('No pod of this text');
  });

  test('without a name is that of the Service without endpoints, if there is one', () => {
    const empty = 'NAME   ENDPOINTS   AGE\ncart   <none>      3m\n';
    expect(answer(`${empty}\n${selector}\n${template('basket')}`)).toContain('the selector of cart (app=cart): the pod has app=basket');
  });

  test('is read of a Deployment that kubectl describes', () => {
    const pods = (app: string) => `Name:   cart\nSelector:   app=${app}\nPod Template:\n  Labels:  app=${app}\n  Containers:\n`;
    const service = 'Name:       cart\nSelector:   app=cart\nIP:         10.96.3.4\nPort:       http  80/TCP\nEndpoints:  <none>\n\n';
    expect(answer(service + pods('basket'))).toContain('the selector of cart (app=cart): pod cart has app=basket');
    expect(answer(service + pods('cart'))).not.toContain('No pod of this text');
  });

  test.each([
    ['of a Gateway', 'spec:\n  selector:\n    istio: ingressgateway\n  servers:\n  - port: {number: 80}\n'],
    ['of a Deployment', 'selector:\n  matchLabels:\n    app: cart\n'],
    ['of a chart', 'spec:\n  selector:\n    app: "{{ .Values.app }}"\n  ports:\n  - port: 80\n'],
  ])('%s is none of a Service', (_, text) => {
    expect(answer(`${text}\n${template('basket')}`)).not.toContain('No pod of this text');
  });
});

test('a selector of a chart is compared by its keys where charts have names in braces', () => {
  const chart = (labels: string) =>
    `selector:\n  app: {{ template "name" . }}\n  tier: {{ .Values.tier }}\n\ntemplate:\n  metadata:\n    labels:\n${labels}`;
  expect(answer(chart('      tier: {{ .Values.role }}\n'))).toContain('no pod of this text has the labels of the selector of the Service');
  expect(answer(chart('      app: cart\n      tier: {{ .Values.role }}\n'))).not.toContain('No pod of this text');
});

test('Endpoints that a text breaks off before their ports are not said to be none', () => {
  const ends =
    'apiVersion: v1\nkind: Endpoints\nmetadata:\n  name: cart\nsubsets:\n- addresses:\n  - ip: 10.244.1.9\n    targetRef:\n      kind: Po';
  expect(answer(ends)).not.toContain('no endpoint');
});

test('labels of a Service are not those of pods', () => {
  expect(answer('The Service has the label `app: shop`, and its selector is `app: cart`.')).not.toContain('No pod of this text');
});

describe('a target port', () => {
  const service = (target: string) => `ports:\n- port: 80\n  targetPort: ${target}\n`;

  test('is compared with the port of the one container of which the text has a part', () => {
    const container = 'containers:\n- name: cart\n  ports:\n  - containerPort: 3000\n';
    expect(answer(`${service('8080')}\nThe pod:\n${container}`)).toContain(
      'the Service sends to port 8080 (targetPort), and the pod declares 3000: ',
    );
    expect(answer(`${service('3000')}\nThe pod:\n${container}`)).not.toContain('targetPort');
  });

  test('is compared with the port of a pod as kubectl describes both', () => {
    const described = (target: string) =>
      `Name:        cart\nNamespace:   shop\nSelector:    app=cart\nPort:        <unset>  80/TCP\nTargetPort:  ${target}/TCP\nEndpoints:   10.244.1.9:${target}\n\nName:        cart-0\nNamespace:   shop\nNode:        w1/192.0.2.3\nLabels:      app=cart\nContainers:\n  cart:\n    Port:       3000/TCP\n    Host Port:  0/TCP\n`;
    expect(answer(described('8080'))).toContain('shop/cart sends to port 8080 (targetPort), and pod cart-0 declares 3000: ');
    expect(answer(described('3000'))).not.toContain('declares');
    // The names of ports are not printed.
    expect(answer(described('http'))).not.toContain('declares');
  });

  test('of an object that ends in the middle is read as far as it goes', () => {
    const cut = `apiVersion: v1\nkind: Pod\nmetadata:\n  name: cart-0\nspec:\n  containers:\n  - ports:\n    - containerPort: 3000\n    image: "shop/ca`;
    expect(answer(`${service('8080')}\n${cut}`)).toContain('Pod cart-0 declares 3000');
  });
});

test('an Ingress that names a port by another name than the Service has is told', () => {
  const objects = (asked: string) =>
    `apiVersion: v1\nkind: Service\nmetadata:\n  name: cart\nspec:\n  ports:\n  - port: 80\n    name: web\n---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: front\nspec:\n  rules:\n  - http:\n      paths:\n      - backend:\n          service:\n            name: cart\n            port:\n              name: ${asked}\n`;
  expect(answer(objects('http'))).toContain('Ingress front sends to the port "http" of cart, which has 80 (web) and none of that name');
  expect(answer(objects('web'))).not.toContain('Ingress front');
});

describe('a NetworkPolicy', () => {
  const policy = (spec: string) =>
    `apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata:\n  name: near\nspec:\n  podSelector:\n    matchLabels: {app: cart}\n${spec}---\n`;
  const service =
    'apiVersion: v1\nkind: Service\nmetadata:\n  name: cart\nspec:\n  selector: {app: cart}\n  ports:\n  - port: 80\n    targetPort: 3000\n---\n';

  test('that admits the port of a Service and not that of its pods is told', () => {
    const ports = (port: number) => policy(`  ingress:\n  - ports:\n    - port: ${port}\n`);
    expect(answer(service + ports(80))).toContain(
      'NetworkPolicy near admits port 80, which is the port of cart, and not 3000, to which cart sends: it counts at the pod',
    );
    expect(answer(service + ports(443))).toContain('NetworkPolicy near admits port 443 and not 3000');
    for (const text of [
      service + ports(3000),
      service + ports(80) + ports(3000),
      service.replace('{app: cart}', '{app: other}') + ports(80),
      service.replace('3000', 'web') + ports(80),
    ])
      expect(answer(text)).not.toContain('NetworkPolicy near admits');
  });

  test('that lets pods ask no DNS is told where names are not found', () => {
    const egress = (port: number) => policy(`  policyTypes: [Egress]\n  egress:\n  - ports:\n    - port: ${port}\n`);
    const lost = 'curl: (6) Could not resolve host: cart\n';
    expect(answer(lost + egress(443))).toContain('NetworkPolicy near lets the pods that it selects send no requests to DNS');
    for (const text of [lost + egress(53), egress(443), lost + egress(443) + egress(53)]) expect(answer(text)).not.toContain('to DNS');
  });
});

test('a NetworkPolicy that asks for labels of namespaces is told, unless the text has a namespace with them', () => {
  const policy = (label: string) =>
    `    - namespaceSelector:\n        matchLabels:\n          ${label}\nnc: connect to 10.244.3.3 port 80 (tcp) failed: Connection timed out\n`;
  const namespace = (labels: string) => `NAME    STATUS   AGE   LABELS\nfront   Active   9d    ${labels}\n`;
  const asks = 'admits namespaces with team=a';
  expect(answer(policy('team: a'))).toContain(`${asks}: a namespace has the label kubernetes.io/metadata.name`);
  expect(answer(policy('team: a') + namespace('team=b'))).toContain(`${asks}, and front has team=b: `);
  for (const text of [policy('team: a') + namespace('team=a,tier=x'), policy('kubernetes.io/metadata.name: front')])
    expect(answer(text)).not.toContain('admits namespaces');
});

test('a pod in the network of its host that finds no name is told which policy of DNS it needs', () => {
  const pod = 'spec:\n  hostNetwork: true\n  containers:\n  - name: cart\n';
  const lost = "nslookup: can't resolve 'shop'\n";
  expect(answer(pod + lost)).toContain('it needs dnsPolicy: ClusterFirstWithHostNet');
  for (const text of [pod, lost, `${pod}  dnsPolicy: ClusterFirstWithHostNet\n${lost}`])
    expect(answer(text)).not.toContain('it needs dnsPolicy');
});

test('a program that listens at the loopback address alone is told where its port is that of a Service', () => {
  const list = 'NAME   ENDPOINTS          AGE\ncart   10.244.3.3:3000    9d\n\n';
  const socket = (address: string, port = 3000) => `tcp    0   0 ${address}:${port}    0.0.0.0:*    LISTEN   7/node\n`;
  expect(answer(list + socket('127.0.0.1'))).toContain('a program listens on port 3000 of 127.0.0.1 alone');
  expect(answer(`${list}LISTEN 0  128  [::1]:3000  [::]:*\n`)).toContain('a program listens on port 3000 of ::1 alone');
  for (const text of [socket('0.0.0.0'), socket('127.0.0.1') + socket(':::'), socket('127.0.0.1', 9090)])
    expect(answer(list + text)).not.toContain('a program listens');
});

test('a headless Service without endpoints is not said to refuse', () => {
  const list = 'NAME   CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\ncart   None         <none>                  9d\n\n';
  const empty = 'NAME   ENDPOINTS   AGE\ncart   <none>      9d\n';
  expect(answer(list + empty)).toContain('cart: no endpoint: it is headless, so that its name has no address');
  expect(answer(list + empty)).not.toContain('refuses');
});

test('lists in a table of Markdown are read', () => {
  const rows = ['| NAME | ENDPOINTS | AGE |', '|---|---|---|', '| cart | <none> | 9d |', '| db | 10.244.3.3:5432 | 9d |'];
  expect(answer(rows.join('\n'))).toContain('cart: no endpoint');
  expect(answer(rows.join('\n'))).not.toContain('db: no endpoint');
});

test('a row that stops every packet is told where no row has its chain', () => {
  const accept = 'ACCEPT     all  --  10.244.0.0/16        anywhere\n';
  const reject = (from: string) => `REJECT     all  --  ${from}             anywhere             reject-with icmp-host-prohibited\n`;
  expect(answer(reject('anywhere') + accept)).toContain('The row on line 1 stops every packet that comes to it');
  expect(answer(reject('192.0.2.7') + accept)).not.toContain('stops every packet');
});

test('a container that declares another port than the program of its image has by itself is told', () => {
  const pod = (image: string, port: number, rest = '') =>
    `apiVersion: v1\nkind: Pod\nmetadata:\n  name: cart-0\n  labels: {app: cart}\nspec:\n  containers:\n  - image: ${image}\n    ports:\n    - containerPort: ${port}\n${rest}---\n`;
  expect(answer(pod('httpd:2.4', 8080))).toContain('Pod cart-0 declares port 8080, and httpd:2.4 listens by default on 80');
  for (const text of [pod('httpd:2.4', 80), pod('shop/cart', 8080), pod('httpd', 8080, '    args: [-c, Listen 8080]\n')])
    expect(answer(text)).not.toContain('listens by default');
  // What it declares is no condition.
  const service = 'apiVersion: v1\nkind: Service\nmetadata:\n  name: cart\nspec:\n  selector: {app: cart}\n  ports:\n  - port: 80\n---\n';
  expect(answer(service + pod('httpd', 8080))).not.toContain('cart sends to port 80');
});

test('a NetworkPolicy with ports is said to be about those of pods, where something is kept out and nothing else is known', () => {
  const egress = 'spec:\n  podSelector: {}\n  policyTypes:\n  - Egress\n  egress:\n  - ports:\n    - port: 80\n';
  expect(answer(`${egress}\nit still blocks`)).toContain('NetworkPolicy of this text admits port 80: it counts at the pod that is asked');
  expect(answer(egress)).not.toContain('NetworkPolicy');
  expect(answer('  - from:\n    - ipBlock: {cidr: 192.0.2.0/24}\n    ports:\n    - port: 8443\n\nwe are unable to scrape it')).toContain(
    'admits port 8443: it counts',
  );
  expect(
    answer('  - from:\n    - source: {namespaces: [web]}\n    to:\n    - operation: {ports: ["80"]}\n\nit still blocks'),
  ).not.toContain('NetworkPolicy');
});

test('a name without a namespace that is not found is told where its Service is', () => {
  const lost = 'curl: (6) Could not resolve host: cart\n';
  const list =
    'NAMESPACE   NAME   TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nshop        cart   ClusterIP   10.96.3.4    <none>        80/TCP    9d\n\n';
  const from = (namespace: string) => `$ kubectl exec -n ${namespace} box -- curl cart\n`;
  expect(answer(list + from('web') + lost)).toContain(
    'cart is a Service of namespace shop: pods of other namespaces know it as cart.shop alone',
  );
  for (const text of [list + from('shop') + lost, list + from('web'), list + from('web') + lost.replace('cart', 'cart.web')])
    expect(answer(text)).not.toContain('is a Service of namespace');
});
