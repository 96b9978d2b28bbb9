import type {Snapshot} from '../../src/model/snapshot.ts';
import {parseIpvsadm} from '../../src/parse/ipvs/ipvsadm-save.ts';
import {snapshotOf} from '../fixtures.ts';
import {answerText, askSnapshot, askText, breach, nodeAddresses, type Question} from './ask.ts';
import {ipvsForms, type IpvsText} from './ipvs-forms.ts';

/**
 * Compares every form of a capture in IPVS mode with the bundle, and returns the breaches of the law. Few kernels of test machines have IPVS:
 * the texts are made from the capture. A form that shows everything must answer as the node does where the addresses of
 * kube-ipvs0 are given; without them the outcome is undetermined. `step`: one of so many virtual servers is tested.
 */
export async function ipvsBreaches(capture: string, step: number): Promise<readonly string[]> {
  const {text, snapshot, questions} = await material(capture, step);
  const bound = [...nodeAddresses, ...new Set(text.servers.map(({address}) => address))];
  const found: string[] = [];
  for (const {name, text: textOf, isWhole} of ipvsForms(text)) {
    const pasted = textOf();
    const answers = {given: await askText(pasted, questions, bound), unknown: await askText(pasted, questions)};
    for (const [index, question] of questions.entries()) {
      const right = askSnapshot(question, snapshot);
      const asked = `${name}: ${question.source} to ${question.destination} ${question.port}`;
      for (const [how, all] of Object.entries(answers)) {
        const answer = all[index] ?? new Map<string, number>();
        const wrong = breach(answer, right);
        if (wrong !== null) found.push(`${asked}: ${wrong}`);
        else if (isWhole && how === 'given' && answerText(answer) !== answerText(right))
          found.push(`${asked}: ${answerText(answer)}, though the form shows that it is ${answerText(right)}`);
      }
    }
  }
  return found;
}

interface Material {
  readonly text: IpvsText;
  readonly snapshot: Snapshot;
  readonly questions: readonly Question[];
}

async function material(capture: string, step: number): Promise<Material> {
  const whole = await snapshotOf(capture);
  const [node] = whole.nodes;
  if (node === undefined) throw new Error(`${capture} has no node`);
  const read = (file: string) => node.read(file)?.toString('utf8') ?? '';
  const save = read('ipvsadm-save');
  const servers = parseIpvsadm(save).servers.filter(({family}) => family === 'IPv4');
  const text = {iptables: read('iptables-save'), ipset: read('ipset-save'), save, list: read('ipvsadm-list.txt'), servers};
  return {text, snapshot: {...whole, nodes: [node]}, questions: questionsFor(text, step)};
}

function questionsFor({servers}: IpvsText, step: number): readonly Question[] {
  const sources = ['10.244.11.4', '198.51.100.9', '172.18.0.11'] as const;
  const places = [
    ...servers
      .filter((_, index) => index % step === 0)
      .map(({address, port, protocol}) => ({destination: address, port: String(port), protocol: protocol.toLowerCase()})),
    {destination: '9.9.9.9', port: '443'},
    {destination: '172.18.0.11', port: '22'},
  ];
  return places.flatMap((place, index) => ({source: sources[index % 3] ?? sources[0], ...place}));
}
