import {join} from 'node:path';
import type {LiveNode} from './live-node.ts';
import {writeProgram} from './write-program.ts';

/** Writes a `docker` to a folder whose containers are the nodes of a cluster. `path` is the PATH inside of them. */
export function writeDocker(folder: string, nodes: readonly LiveNode[], path: string): void {
  const cases = nodes.map(node => `    ${node.name}) enter="${node.enter.join(' ')}" ;;`);
  const script = `find_container() {
  case "$1" in
${cases.join('\n')}
    *) echo "Error response from daemon: No such container: $1" >&2; exit 1 ;;
  esac
}
case "$1 $2" in
  "container inspect") find_container "$5"; echo true ;;
  "exec --user")
    find_container "$4"; shift 4
    export PATH="${path}"
    if ! command -v "$1" >/dev/null; then
      echo "OCI runtime exec failed: exec failed: unable to start container process: exec: \\"$1\\": executable file not found in \\$PATH: unknown" >&2
      exit 127
    fi
    exec $enter "$@" ;;
  *) echo "docker: '$1' is not a docker command." >&2; exit 1 ;;
esac`;
  writeProgram(join(folder, 'docker'), script);
}
