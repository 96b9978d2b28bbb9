import {once} from '../../model/once.ts';
import {undecorate, withoutFrame} from '../iptables/pasted-text.ts';

/** A row of `kubectl get pods`. */
interface ListedPod {
  /** Empty where the text does not have it. */
  readonly namespace: string;
  readonly name: string;
  /** Containers that are ready. */
  readonly ready: number;
  readonly isReady: boolean;
  readonly status: string;
  readonly ip: string | null;
  readonly node: string | null;
  /** Those of `--show-labels`, or that the command asked for, which are some of them; null where the text has neither. */
  readonly labels: readonly string[] | null;
  readonly areAsked: boolean;
}

export const podsIn = once((lines: readonly string[]): readonly ListedPod[] => {
  let asked: readonly string[] | null = null;
  return lines.flatMap(raw => {
    if (!/\d\/\d+ +[A-Z]|\bget\b/.test(raw)) return [];
    const line = withoutFrame(undecorate(raw));
    if (/\bget\b/.test(line))
      asked = /\bpo(?:ds?)?\b.* (?:-l|--selector)[ =]?["']?([\w./-]+=[^\s"'!()]*)/.exec(line)?.[1]?.split(',') ?? null;
    const [, namespace = '', name = '', count, all, status = '', rest = ''] = podRow.exec(line) ?? [];
    if (count === undefined) return [];
    const [, ip = null, node = null] = /(?:^|\s)(\d+\.\d+\.\d+\.\d+)\s+(\S+)/.exec(rest) ?? [];
    const shown = /\s(\S+=\S*)\s*$/.exec(rest)?.[1]?.split(',');
    return [
      {
        namespace,
        name,
        ready: Number(count),
        isReady: count === all,
        status,
        ip,
        node,
        labels: shown ?? asked,
        areAsked: shown === undefined,
      },
    ];
  });
});

const podRow = /^\s*(?:([\w-]+)\s+)?(?:po(?:ds?)?\/)?([\w.-]+)\s+(\d+)\/(\d+)\s+([A-Z]\S*)\s+(\d.*)$/;
