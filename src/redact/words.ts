import {type AddressText, looksLikeAddress} from './address-text.ts';
import {messageWords} from './message-words.ts';
import type {ChainNames} from './chain-names.ts';
import type {Names} from './names.ts';

/** Words in the comments of kube-proxy and the kubelet, which explain rules. */
const vocabulary = new Set(
  `
  a accepted all and balancing block by chain check checks clusterip cluster conntrack connections destinations dropped endpoints
  external externally-visible filter firewall firewalled for forwarding from has health host hairpin incoming internal invalid ip ips
  ipvs kube-proxy kubernetes load balancer loadbalancer local localnet lb masquerade no node nodeport nodeports not of other out pod pods
  portals ports port postrouting reach redirect requiring route rule rules service services snat traffic trying the to vip
  will access active clusterips allowed reject in on unallocated drop last must note this be packet packets marked source destination
  udp tcp sctp purpose type hash externaltrafficpolicy=local cidr using nodeports -> + -
`
    .trim()
    .split(/\s+/),
);

/** Replaces identifying parts of text that people or programs wrote. */
export class Words {
  readonly #names: Names;
  readonly #addresses: AddressText;
  readonly #chains: ChainNames;

  constructor(names: Names, addresses: AddressText, chains: ChainNames) {
    this.#names = names;
    this.#addresses = addresses;
    this.#chains = chains;
  }

  /** A comment: replaces all words except the few that kube-proxy uses. */
  comment(text: string): string {
    return text.replace(/[^\s"\\]+/g, word => this.#commentWord(word));
  }

  /**
   * A message of this program or of one that it ran: replaces known names, host names and addresses. Of the other words only those of
   * messages are kept: a user, a group, a context or a path can have any name.
   */
  message(text: string): string {
    const anonymous = text.replace(/\b(User|user|Group|group|ServiceAccount) "[^"]+"/g, '$1 "…"');
    return anonymous.replace(/[^\s"'`(),;]+/g, word => this.#messageWord(word)).replace(/…(?:[-\s./:@=,]*…)+/g, '…');
  }

  #commentWord(word: string): string {
    if (vocabulary.has(word.toLowerCase().replace(/[;:,.']$/, '')) || /^\d+$/.test(word)) return word;
    const chain = /^KUBE-[A-Z]+-?[-A-Z0-9]*$/.test(word) ? this.#chains.replace(word) : null;
    return chain ?? this.#chains.servicePort(word) ?? this.#addressOr(word, () => this.#names.replace(word));
  }

  #addressOr(word: string, otherwise: () => string): string {
    const replaced = this.#addresses.replace(word);
    return replaced !== word || looksLikeAddress(word) ? replaced : otherwise();
  }

  #messageWord(word: string): string {
    const parts = this.#addresses.replace(word).split(/([^\w.-]+)/);
    return parts.map(part => this.#messagePart(part)).join('');
  }

  #messagePart(part: string): string {
    const [, body = '', end = ''] = /^(.*?)([.-]*)$/s.exec(part) ?? [];
    const known = this.#names.known(body);
    if (known !== null) return known + end;
    const chain = /^KUBE-[-A-Z0-9]+$/.test(body) ? this.#chains.replace(body) : null;
    if (chain !== null) return chain + end;
    if (isOfMessages(body)) return body + end;
    return (looksLikeHost(body) ? this.#names.replace(body) : '…') + end;
  }
}

/** Words of messages, numbers, codes, flags and versions. A long number can be that of an account. */
function isOfMessages(text: string): boolean {
  const word = text.replace(/^[-.]+/, '').toLowerCase();
  if (!/[a-z0-9]/.test(word)) return !/[^\x20-\x7e…]/.test(word);
  return (
    messageWords.has(word) ||
    /^(?:metadata|spec|status|net)\.[\w.]+$/.test(word) ||
    /^(?:v?\d{1,5}(?:\.\d{1,5})*(?:ms|s|m|h|[kmg]i?b?)?|st\d{3})$/.test(word)
  );
}

/** A name with dots that is neither a file of a bundle, nor a setting, nor a number. */
function looksLikeHost(text: string): boolean {
  return (
    /^[a-z0-9][-a-z0-9]*(?:\.[a-z0-9][-a-z0-9]*)+$/i.test(text) &&
    /[a-z]/i.test(text) &&
    !/\.(?:json|yaml)$|^v?\d|^(?:metadata|spec|status|net)\./.test(text)
  );
}
