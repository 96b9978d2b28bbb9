/** Where an executable runs, and the Bun that goes into it: what npm must download is exactly this. */
export interface Platform {
  /** As krew and Go call them. */
  readonly os: 'linux' | 'darwin' | 'windows';
  readonly arch: 'amd64' | 'arm64';
  /** `@oven/bun-NAME`. */
  readonly bun: string;
  readonly integrity: string;
}

export const bunVersion = '1.4.5';

/** Of the package `bun-types` of this version, which has the page about the licenses of Bun. */
export const bunTypesIntegrity = 'sha512-ECHn+9dhL3wv0G6u0+7dQvrnaimXiRDxxerYBmhTaLyJEEuvTPWk2Fye3XIf5Y++JIIiHKfQw4Z7V5D8KuiXbg==';

/** What executables are made for, and krew installs. "baseline" runs on processors without AVX2 too. */
export const platforms: readonly Platform[] = [
  {
    ...{os: 'linux', arch: 'amd64', bun: 'linux-x64-baseline'},
    integrity: 'sha512-s8yMwYcFnnrA178gji0gZbkE2WVDej/Ti1x770oPfihxyRxSMNhGhiAQNXV53aDeraZxksdvKV/RAdQBCd0qPA==',
  },
  {
    ...{os: 'linux', arch: 'arm64', bun: 'linux-aarch64'},
    integrity: 'sha512-4BXmsSKnjOrlGWqZV4x/oWa7AVoR+B6lCXddMzOAXBIm3t50eslg9wb66gmtW1AamEQ1l1CDvmmruysEhqOWMg==',
  },
  {
    ...{os: 'darwin', arch: 'amd64', bun: 'darwin-x64'},
    integrity: 'sha512-qkLPMGHZM9NI6CeHTWwVezzmlo6cC4Ta7yUAjYIWXS366qQcOlcp75t2uZyiuVRBMPS0h9qE0tCcvCHGaFqjJg==',
  },
  {
    ...{os: 'darwin', arch: 'arm64', bun: 'darwin-aarch64'},
    integrity: 'sha512-4MIFXHmctH2EhAxLXm2/qxNtv17dFtLJylvaOCsrgq6KSqHTs6eW5YSrJjRbJxYUJaR901fsN8JfZOa+CsWpWQ==',
  },
  {
    ...{os: 'windows', arch: 'amd64', bun: 'windows-x64'},
    integrity: 'sha512-FNvply651vcE/GHgNWz6mZvhmkwBuu8Hw54oNzA+CQog+HW+542rXQmZqNHRkFxazD9L3xi+iTtvO3engAgJfw==',
  },
  {
    ...{os: 'windows', arch: 'arm64', bun: 'windows-aarch64'},
    integrity: 'sha512-MiPFZnBNDnBXgr1oONc5pizC4fOLjnIOfNkYdFEnWzLmoFTg86naZIG3SvS7d/GglpQSAnCKMAzSjI/TAckiRw==',
  },
];

/** `linux_amd64` */
export function platformName({os, arch}: Platform): string {
  return `${os}_${arch}`;
}

export function executableName({os}: Platform): string {
  return os === 'windows' ? 'kubectl-svc_trace.exe' : 'kubectl-svc_trace';
}

export function archiveName(platform: Platform, version: string): string {
  return `svc-trace_v${version}_${platformName(platform)}.${platform.os === 'windows' ? 'zip' : 'tar.gz'}`;
}

/** The one that this machine can run. Throws where there is none. */
export function ownPlatform(): Platform {
  const os = process.platform === 'win32' ? 'windows' : process.platform;
  const arch = process.arch === 'x64' ? 'amd64' : process.arch;
  const own = platforms.find(platform => platform.os === os && platform.arch === arch);
  if (own === undefined) throw new Error(`executables are made on Linux, macOS or Windows, x64 or arm64, not on ${os} ${arch}`);
  return own;
}
