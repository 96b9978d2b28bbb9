import {nodeFacts} from '../../../src/expect/read-node-facts.ts';
import {environmentOf} from '../../../src/analyze/outcomes/environment.ts';
import {askPacket, type PacketAnswer} from '../../../src/analyze/packet-query.ts';
import type {PacketNode} from '../../../src/analyze/packet-node.ts';
import {walkRules} from '../../../src/analyze/packet-rules.ts';
import {packetOf} from '../../../src/analyze/outcomes/probes.ts';
import type {NodeDump, Snapshot} from '../../../src/model/snapshot.ts';
import {answerText, predictionOf, type Prediction, type KernelComparison} from './compare.ts';
import {Lab, type PlacedFlow} from './lab.ts';
import {type BackendName, loadIptables, type RulesUnderTest} from './load-rules.ts';
import {loadNft} from './load-nft.ts';
import {type Destination, portsOfNode, type Question, type QuestionsInput, questionsOf, strayQuestions} from './questions.ts';
import {flowsFor} from './shares.ts';

export interface ExperimentSettings {
  readonly snapshot: Snapshot;
  readonly node: string;
  readonly backend: BackendName | 'nftables';
  /** The node's interface to its pods; when it is given, questions say by which interface a packet comes in. */
  readonly podInterface?: string;
  /** Addresses that the node has besides its own, as a load balancer may put its address on the nodes. */
  readonly addresses?: readonly string[];
}

/** One captured node, rebuilt: its rules are in the kernel, and `packet` can be asked about the same dump. */
export class Experiment implements AsyncDisposable {
  readonly questions: readonly Question[];
  /** What of the dumps this kernel does not know. */
  readonly leftOut: readonly string[];
  /** What `ip -j address` prints on the node: in a bundle, `addresses.json`. */
  readonly addresses: string;
  readonly #input: QuestionsInput;
  readonly #lab: Lab;
  readonly #node: Omit<PacketNode, 'rules'>;
  readonly #loaded: RulesUnderTest;

  static async open(settings: ExperimentSettings): Promise<Experiment> {
    const {snapshot, node: name, podInterface = 'cni0', addresses = []} = settings;
    const number = 11 + ['node-a', 'node-b', 'node-c'].indexOf(name);
    const lab = await Lab.open({number, podInterface, addresses, ports: portsOfNode(snapshot.api)});
    try {
      return new Experiment(lab, settings, number);
    } catch (error) {
      await lab[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(lab: Lab, {snapshot, node: name, backend, podInterface, addresses = []}: ExperimentSettings, number: number) {
    this.#lab = lab;
    this.addresses = lab.node.run('ip', ['-j', 'address']);
    const captured = snapshot.nodes.find(node => node.name === name);
    if (captured === undefined) throw new Error(`the capture has no ${name}`);
    const node: NodeDump = {...captured, read: file => (file === 'addresses.json' ? Buffer.from(this.addresses) : captured.read(file))};
    this.#node = {node, facts: nodeFacts(node, snapshot.api)};
    this.#loaded = backend === 'nftables' ? loadNft(lab.node, node) : loadIptables(lab.node, backend, node);
    this.leftOut = this.#loaded.leftOut;
    this.#input = {...{api: snapshot.api, number, addresses}, podInterface: podInterface ?? null};
    this.questions = questionsOf(this.#input);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lab[Symbol.asyncDispose]();
  }

  /** Questions about other packets than those for Services. */
  questionsAbout(destinations: readonly Destination[]): readonly Question[] {
    return strayQuestions(this.#input, destinations);
  }

  /** What was loaded, and what the kernel holds of it, read back: the same. */
  get read(): RulesUnderTest['read'] {
    return this.#loaded.read;
  }

  ask({query}: Question): PacketAnswer {
    return askPacket(query, {...this.#node, rules: this.#loaded.rules(query.family)});
  }

  /**
   * Sends so many packets that no outcome can be missed by chance, if questions with the same answer are taken together; with `alone`
   * of each question by itself.
   */
  async try(questions: readonly Question[], {alone = false}: {readonly alone?: boolean} = {}): Promise<readonly KernelComparison[]> {
    const asked = questions.map(question => ({question, prediction: predictionOf(this.ask(question))}));
    const alike = Map.groupBy(asked, ({prediction}) => answerText(prediction));
    return this.#send(
      asked.map(({question, prediction}) => {
        const rarest = Math.min(...[...prediction.values()].map(({probability}) => probability));
        const sharers = alone ? 1 : Math.min(4, alike.get(answerText(prediction))?.length ?? 1);
        const length = Math.max(2, Math.ceil(flowsFor(rarest) / sharers));
        return {question, prediction, sources: Array.from({length}, () => question.query.source)};
      }),
    );
  }

  /** Sends from clients that are new to a Service, and from the same clients once more. */
  async tryTwice(questions: readonly Question[]): Promise<readonly (readonly [first: KernelComparison, second: KernelComparison])[]> {
    const done: (readonly [KernelComparison, KernelComparison])[] = [];
    for (let left = questions; left.length > 0; ) {
      await this.#loaded.forgetClients();
      const round = chooseClients(left);
      const asked = round.map(({question, sources}) => ({question, sources, prediction: predictionOf(this.ask(question))}));
      const [first, second] = [await this.#send(asked), await this.#send(asked)];
      done.push(...first.flatMap((comparison, at) => (second[at] === undefined ? [] : [[comparison, second[at]] as const])));
      left = left.filter(question => !round.some(chosen => chosen.question === question));
    }
    return done;
  }

  /** In words: all clients that did not come back to where they were sent first, or of which `packet` says otherwise. */
  strayed([first, second]: readonly [KernelComparison, KernelComparison]): readonly string[] {
    return first.sent.flatMap(({flow, pathOutcome}, at) => {
      const back = second.sent[at]?.pathOutcome;
      const said = [...this.#askAgain(first.question, pathOutcome).keys()].join(' or ');
      return back === pathOutcome && said === pathOutcome
        ? []
        : [`${first.question.title}: ${flow.source}: ${pathOutcome}, then ${back}; packet says ${said}`];
    });
  }

  /** The outcome of a second packet from a sender whose first packet put it on the lists of that path. */
  #askAgain(question: Question, pathOutcome: string): Prediction {
    const {from, query} = question;
    const ways = this.ask(question).outcomes.filter(outcome => predictionOf({outcomes: [outcome]}).has(pathOutcome));
    const knownTo = new Set(ways.flatMap(({path}) => path.flatMap(this.#loaded.listsOf)));
    const packet = packetOf(query, {...query, from: {kind: from === 'node' ? 'node' : 'other', interface: query.inInterface}});
    if (packet === null) throw new Error(`${query.source} or ${query.destination} is no address`);
    const environment = environmentOf(this.#node.facts, {knownTo, strict: true});
    return predictionOf({outcomes: walkRules(this.#loaded.rules(query.family), {packet, environment, pods: []})});
  }

  async #send(
    asked: readonly (Omit<KernelComparison, 'sent'> & {readonly sources: readonly string[]})[],
  ): Promise<readonly KernelComparison[]> {
    const flows = asked.flatMap(({question, prediction, sources}) => {
      const isDrawn = prediction.size > 1 && prediction.has('drop');
      return sources.map(source => ({...this.#flow(question, source), isDrawn}));
    });
    const sent = await this.#lab.send(flows);
    let next = 0;
    return asked.map(({question, prediction, sources}) => {
      const first = next;
      next += sources.length;
      return {question, prediction, sent: sent.slice(first, next)};
    });
  }

  #flow({from, query: {protocol, destination, port}}: Question, source: string): Omit<PlacedFlow, 'isDrawn'> {
    return {from, source, sourcePort: this.#lab.freshPort(), protocol: protocol === 'TCP' ? 'tcp' : 'udp', destination, port};
  }
}

/**
 * Questions that can be asked at once, each with clients of its own: a client that has been to a Service once is no longer new.
 * A list of `-m recent` holds no more than 100 clients.
 */
function chooseClients(questions: readonly Question[]): readonly {readonly question: Question; readonly sources: readonly string[]}[] {
  const used = new Set<string>();
  return questions.flatMap(question => {
    const sources = question.sources.filter(source => !used.has(`${question.service} ${source}`)).slice(0, 6);
    for (const source of sources) used.add(`${question.service} ${source}`);
    return sources.length === 0 ? [] : [{question, sources}];
  });
}
