import {spawnSync} from 'node:child_process';
import process from 'node:process';
import {describe, test} from 'vitest';

/** A real kubectl: the one that `SVC_TRACE_KUBECTL` names (`tools/get-kubectl.ts` fetches one), or that of the machine. */
export const kubectl = process.env['SVC_TRACE_KUBECTL'] ?? 'kubectl';
/** A real helm, as above. */
export const helm = process.env['SVC_TRACE_HELM'] ?? 'helm';

/**
 * What a test may need of the machine, each with a shell command that succeeds where it is there and does its work. Programs for the
 * tables of the kernel list those of a new network namespace, which takes rights and leaves the machine as it is.
 */
export const questions = {
  root: 'test "$(id -u)" = 0',
  netns: 'unshare --net true',
  unshare: 'unshare --mount true',
  nsenter: 'nsenter --net=/proc/self/ns/net true',
  setpriv: 'setpriv --dump',
  chroot: 'chroot / true',
  capsh: 'capsh --print',
  iptables: 'unshare --net iptables -t nat -S',
  'iptables-nft': 'unshare --net iptables-nft -t nat -S',
  'iptables-legacy': 'unshare --net iptables-legacy -t nat -S',
  'iptables-save': 'unshare --net iptables-save',
  'ip6tables-save': 'unshare --net ip6tables-save',
  'iptables-nft-save': 'unshare --net iptables-nft-save',
  'ip6tables-nft-save': 'unshare --net ip6tables-nft-save',
  'iptables-restore': 'unshare --net iptables-restore',
  'iptables-nft-restore': 'unshare --net iptables-nft-restore',
  'ip6tables-nft-restore': 'unshare --net ip6tables-nft-restore',
  'iptables-legacy-restore': 'unshare --net iptables-legacy-restore',
  'ip6tables-legacy-restore': 'unshare --net ip6tables-legacy-restore',
  nft: 'unshare --net nft list ruleset',
  ipset: 'unshare --net ipset list',
  conntrack: 'unshare --net conntrack -L',
  ip: 'ip -V',
  sysctl: 'sysctl --version',
  sshd: 'sshd -t',
  ssh: 'ssh -V',
  // It does nothing without a key.
  'ssh-keygen': 'command -v ssh-keygen',
  curl: 'curl --version',
  tar: 'tar --version',
  unzip: 'unzip -v',
  script: 'script -qec true /dev/null',
  dot: 'dot -Tsvg /dev/null',
  // As in browser.ts.
  chromium: 'chromium --headless --disable-gpu $(test "$(id -u)" != 0 || echo --no-sandbox) --dump-dom about:blank',
  prometheus: 'prometheus --version',
  promtool: 'promtool --version',
  mmdebstrap: 'mmdebstrap --version',
  kubectl: '"$SVC_TRACE_KUBECTL" version --client',
  helm: '"$SVC_TRACE_HELM" version',
} as const;

export type Need = keyof typeof questions;

/** Who asks: another user, or with other programs. */
export interface Asker {
  readonly uid?: number;
  readonly env?: Readonly<Record<string, string>>;
}

/** Why a need is not met; null where it is. */
export function whyNot(need: Need, {uid, env}: Asker = {}): string | null {
  const options = {
    ...(uid === undefined ? {} : {uid, gid: uid}),
    env: {SVC_TRACE_KUBECTL: 'kubectl', SVC_TRACE_HELM: 'helm', ...(env ?? process.env)},
  };
  const {status, stderr, error} = spawnSync('/bin/sh', ['-c', questions[need]], {encoding: 'utf8', input: '', ...options});
  if (status === 0) return null;
  const said = error?.message ?? stderr.trim().split('\n').at(-1)?.slice(0, 200) ?? '';
  return said === '' ? need : `${need} (${said})`;
}

const asked = new Map<Need, string | null>();

function whyNotHere(need: Need): string | null {
  const known = asked.get(need);
  if (known !== undefined) return known;
  const reason = whyNot(need);
  asked.set(need, reason);
  return reason;
}

/** Whether this machine has it. */
export function isMet(need: Need): boolean {
  return whyNotHere(need) === null;
}

/**
 * A `describe` whose tests need something of the machine. Where that is missing they are skipped, and the title and stderr say why;
 * with `SVC_TRACE_NO_SKIP=1`, as in CI, they fail.
 */
export function describeWith(needs: readonly Need[], title: string, tests: () => void): void {
  const reason = reasonAgainst(needs);
  if (reason === null) describe(title, tests);
  else if (mustRun) failing(title, reason);
  else describe.skip(left(title, reason), tests);
}

/** A `test` of this kind. */
export function testWith(needs: readonly Need[], title: string, run: () => Promise<void>): void {
  const reason = reasonAgainst(needs);
  if (reason === null) test(title, run);
  else if (mustRun) failing(title, reason);
  else test.skip(left(title, reason), run);
}

const mustRun = process.env['SVC_TRACE_NO_SKIP'] === '1';

function reasonAgainst(needs: readonly Need[]): string | null {
  const reasons = needs.flatMap(need => whyNotHere(need) ?? []);
  return reasons.length === 0 ? null : `needs ${reasons.join(', ')}`;
}

function failing(title: string, reason: string): void {
  test(title, () => {
    throw new Error(reason);
  });
}

function left(title: string, reason: string): string {
  process.stderr.write(`skipped: ${title}: ${reason}\n`);
  return `${title} (${reason})`;
}
