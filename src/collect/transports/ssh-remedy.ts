/** What to do about a failure of ssh, by its message. */
export function sshRemedy(said: string, host: string): string {
  return remedies.find(({pattern}) => pattern.test(said))?.remedy(host) ?? `try "ssh ${host}" by hand`;
}

/** Whether ssh would fail the same way again: a key or a setting is wrong. */
export function isPermanentFailure(said: string): boolean {
  return remedies.find(({pattern}) => pattern.test(said))?.isPermanent ?? false;
}

interface Remedy {
  readonly pattern: RegExp;
  readonly remedy: (host: string) => string;
  readonly isPermanent?: true;
}

/** The first match counts. */
const remedies: readonly Remedy[] = [
  {
    pattern: /System is booting up|pam_nologin/,
    remedy: () => 'it is starting and accepts no logins yet',
  },
  {
    pattern: /HOST IDENTIFICATION HAS CHANGED/,
    isPermanent: true,
    remedy: host =>
      `its host key differs from the known one; if the node was reinstalled, remove the old key with "ssh-keygen -R ${host}"; otherwise the connection may be intercepted`,
  },
  {
    pattern: /Host key verification failed|host key is known/,
    isPermanent: true,
    remedy: host =>
      `its host key is not known here; check and accept it by "ssh ${host}" once, or use --ssh-option StrictHostKeyChecking=accept-new`,
  },
  {
    pattern: /Permission denied|Too many authentication failures/,
    isPermanent: true,
    remedy: () =>
      'the node took none of your keys; choose the user with --ssh-user and the key with ssh-add or --ssh-option IdentityFile=FILE',
  },
  {pattern: /Could not resolve hostname/, remedy: () => 'the name is not known here; try --ssh-address InternalIP or ExternalIP'},
  {pattern: /Connection refused/, remedy: () => 'nothing listens there; choose the port with --ssh-port or the address with --ssh-address'},
  {
    pattern: /timed out|No route to host|Network is unreachable/i,
    remedy: () =>
      'the address is not to be reached from here; try --ssh-address ExternalIP, or a jump host with --ssh-option ProxyJump=HOST',
  },
  {
    pattern: /Bad configuration option|Bad owner or permissions|keyword .* extra arguments/i,
    isPermanent: true,
    remedy: () => 'put your ssh configuration or --ssh-option right',
  },
];
