import type {ApiObjects, NodeDump, Problem} from '../model/snapshot.ts';
import {learnObjects} from './learn-objects.ts';
import type {NameKind} from './names.ts';
import {type ObjectList, objectTreatments} from './object-treatments.ts';
import {redactFile} from './redact-file.ts';
import {Replacements} from './replacements.ts';
import {sortSubsets} from './sort-subsets.ts';
import {treat} from './treatment.ts';

/** How many different ones were replaced, and what was left out. */
export interface RedactionSummary {
  readonly names: ReadonlyMap<NameKind, number>;
  readonly addresses: number;
  readonly hardwareAddresses: number;
  /** Chains of kube-proxy for an unknown Service or endpoint. */
  readonly unknownChains: number;
  /** Names of files. */
  readonly leftOut: readonly string[];
}

/**
 * Removes what identifies a cluster from a bundle, and keeps what a diagnosis needs. Redact the API objects first, then the nodes, one at a
 * time in any order. The same key gives the same replacements.
 */
export class Redaction {
  readonly #replacements: Replacements;
  readonly #leftOut = new Set<string>();

  constructor(key: string | Uint8Array) {
    this.#replacements = new Replacements(key);
  }

  objects(api: ApiObjects): ApiObjects {
    learnObjects(api, this.#replacements);
    const lists = Object.entries(objectTreatments).map(([kind, treatment]) => {
      const items = api[kind as ObjectList];
      return [kind, items?.map(item => treat(item, treatment, this.#replacements)) ?? null];
    });
    return sortSubsets(api, {...(Object.fromEntries(lists) as Pick<ApiObjects, ObjectList>), ...this.#scope(api)});
  }

  /** A node whose files are redacted when they are read. */
  node(node: NodeDump): NodeDump {
    const name = this.#replacements.names.replace(node.name, 'node');
    return {name, files: node.files, read: file => this.#file(node, file)};
  }

  problem({node, message, remedy, ...rest}: Problem): Problem {
    return {
      ...(node === undefined ? {} : {node: this.#replacements.names.replace(node, 'node')}),
      message: this.message(message),
      ...(remedy === undefined ? {} : {remedy: this.message(remedy)}),
      ...rest,
    };
  }

  /** Messages may contain names of the cluster in these words. */
  message(text: string): string {
    return this.#replacements.words.message(text);
  }

  summary(): RedactionSummary {
    const {names, addresses, text, chains} = this.#replacements;
    return {
      names: names.counts(),
      addresses: addresses.count,
      hardwareAddresses: text.hardwareCount,
      unknownChains: chains.unknownCount,
      leftOut: [...this.#leftOut].sort(),
    };
  }

  #scope({namespaces, podsOf, unsure}: ApiObjects): Pick<ApiObjects, 'namespaces' | 'podsOf' | 'unsure'> {
    const {names, chains} = this.#replacements;
    const services = (known: ReadonlySet<string>) => new Set([...known].flatMap(service => chains.servicePort(service) ?? []));
    return {
      ...(namespaces === undefined ? {} : {namespaces: namespaces.map(name => names.replace(name, 'namespace'))}),
      ...(podsOf === undefined ? {} : {podsOf: services(podsOf)}),
      ...(unsure === undefined ? {} : {unsure: services(unsure)}),
    };
  }

  #file(node: NodeDump, file: string): Buffer | null {
    const content = node.read(file);
    if (content === null) return null;
    const redacted = redactFile(file, content, this.#replacements);
    if (redacted === null) this.#leftOut.add(file);
    return redacted;
  }
}
