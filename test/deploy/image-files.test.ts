import {chmodSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {afterAll, beforeAll, expect, test} from 'vitest';
import packageJson from '../../package.json' with {type: 'json'};
import {packNpm} from '../../tools/release/npm-package.ts';
import {clusterNeeds, LiveCluster} from '../e2e/live/cluster.ts';
import {LiveAgent} from '../e2e/live/live-agent.ts';
import {type CheckReport, svcTrace} from '../e2e/live/svc-trace.ts';
import {describeWith} from '../require.ts';
import {built, deployFolder, overlayNamed} from './overlays.ts';
import {type Container, podsOf} from './pods.ts';
import {clusterOf} from './rights.ts';

const images = ['svc-trace', 'svc-trace-agent'] as const;
type Image = (typeof images)[number];

/** As deploy/images/Dockerfile has it. */
const entrypoint = ['/usr/bin/node', '/usr/lib/svc-trace/bin/run.js'];

// The files of both images are made of Debian's packages as the Dockerfile makes them, and run as a container's: in a root of their own that
// cannot be written, with the user and the capabilities of the manifests.
describeWith([...clusterNeeds, 'mmdebstrap', 'unshare', 'capsh', 'chroot'], 'the files of the images', () => {
  let folder: string;
  const root = (image: Image): string => join(folder, image);

  beforeAll(async () => {
    folder = mkdtempSync('/tmp/svc-trace-images-');
    packNpm(folder);
    const archive = join(folder, `kubectl-svc-trace-${packageJson.version}.tgz`);
    const arch = process.arch === 'x64' ? 'amd64' : process.arch;
    for (const image of images)
      await execa(join(deployFolder, 'images/root-file-system'), [image, arch, process.execPath, archive, root(image)]);
  });
  afterAll(() => rmSync(folder, {recursive: true, force: true}));

  const programsOf = (image: Image) =>
    [...new Set(['usr/bin', 'usr/sbin'].flatMap(path => readdirSync(join(root(image), path))))].sort().join(' ');

  test('hold the programs that they run and no others: the agent has no shell', () => {
    expect(programsOf('svc-trace')).toBe('busybox cat env node sh svc-trace');
    const iptables = ['iptables', 'ip6tables'].flatMap(name => [name, `${name}-legacy-save`, `${name}-nft-save`, `${name}-save`]);
    const readers = ['conntrack', 'curl', 'grep', 'ip', 'ipset', 'ipvsadm', 'nft', 'xtables-legacy-multi', 'xtables-nft-multi'];
    expect(programsOf('svc-trace-agent')).toBe(['node', ...iptables, ...readers].sort().join(' '));
  });

  test.each(images)('of %s have no file that gives rights, and name each Debian package with its license', image => {
    const files = readdirSync(root(image), {recursive: true, encoding: 'utf8'});
    expect(files.filter(file => (lstatSync(join(root(image), file)).mode & 0o6000) !== 0)).toEqual([]);
    const packages = readdirSync(join(root(image), 'var/lib/dpkg/status.d'));
    expect(packages).toEqual(expect.arrayContaining(['libc6', 'libstdc++6', image === 'svc-trace' ? 'busybox' : 'nftables']));
    for (const name of packages) expect(readFileSync(join(root(image), 'var/lib/dpkg/status.d', name), 'utf8')).toMatch(/^Version: /m);
    // Packages of one source share theirs by a link.
    expect(packages.filter(name => !files.includes(`usr/share/doc/${name}/copyright`) && !files.includes(`usr/share/doc/${name}`))).toEqual(
      [],
    );
  });

  test('of svc-trace run the Jobs of the manifests, as nobody and without capabilities', async () => {
    const objects = await built(overlayNamed('cronjob with OpenReports'));
    await using cluster = await clusterOf(objects, 'faults/missing-endpoint');
    const [pod] = podsOf(objects);
    const [check] = pod?.initContainers ?? [];
    const [last] = pod?.containers ?? [];
    expect(podsOf(objects)[0]?.securityContext).toMatchObject({runAsUser: 65534, runAsGroup: 65534});
    const reports = mkdtempSync(join(folder, 'reports-'));
    const kubeconfig = embedded(cluster.kubeconfigOf('svc-trace-check'), join(reports, 'kubeconfig'));
    for (const path of [folder, reports, kubeconfig]) chmodSync(path, 0o777);
    const run = async ({command = entrypoint, args = []}: Container) => {
      const words = [...command, ...args].map(word => word.replaceAll(/(?<!\w)\/reports\b/g, reports));
      const asNobody = `chroot --userspec=65534:65534 --groups= ${root('svc-trace')} "$@"`;
      const [program = '', ...rest] = [...inRoot(root('svc-trace'), asNobody), ...words];
      return await execa(program, rest, {
        ...{env: {KUBECONFIG: kubeconfig, NO_COLOR: '1', PATH: process.env['PATH']}, extendEnv: false},
        ...{reject: false, stdin: 'ignore'},
      });
    };
    if (check === undefined || last === undefined) throw new Error('the Job has no such containers');
    const {exitCode, stderr} = await run(check);
    expect({exitCode, stderr}).toEqual({exitCode: 0, stderr: expect.stringMatching(/^wrote \S+reports\.yaml \([^)]*\): /)});
    expect(readFileSync(join(reports, 'reports.yaml'), 'utf8')).toContain('ST202');
    expect((await run(last)).exitCode).toBe(1);
    const readOnly = await run({...last, command: ['sh', '-c', 'echo > /etc/new']});
    expect(readOnly.stderr).toContain('Read-only file system');
  });

  test('of svc-trace-agent read nodes as check by exec does, with two capabilities', async () => {
    await using cluster = await LiveCluster.open('healthy/1.30-iptables', {tokens: {'agent-token': {user: 'agent'}}});
    // An agent does not exec into the pod of kube-proxy: the image shows the version.
    for (const pod of cluster.api.store.all('pods').filter(({metadata}) => metadata.name.startsWith('kube-proxy-')))
      Object.assign(pod['spec'] as object, {containers: [{name: 'kube-proxy', image: 'registry.k8s.io/kube-proxy:v1.30.5'}]});
    cluster.api.store.put('serviceaccounts', {metadata: {namespace: 'svc-trace', name: 'svc-trace-reader'}});
    const kubeconfig = embedded(cluster.api.kubeconfig, join(folder, 'kubeconfig'));
    const [node = '', program = ''] = entrypoint;
    const dropped = await allCapabilitiesBut(['cap_net_admin', 'cap_net_raw']);
    const withTwo = `capsh --no-new-privs --chroot=${root('svc-trace-agent')} --drop=${dropped} --shell=${node} -- ${program} "$@"`;
    // What follows is the program of this checkout, and its arguments.
    const confine = inRoot(
      root('svc-trace-agent'),
      `sh -c 'while [ "$1" != agent ]; do shift; done; export KUBECONFIG=${kubeconfig}; exec ${withTwo}' sh "$@"`,
    );
    const agents = cluster.nodes.map(({name}) => new LiveAgent(cluster, name, {confine}));
    try {
      await Promise.all(agents.map(agent => agent.ready()));
      const check = async (...args: readonly string[]): Promise<CheckReport> =>
        JSON.parse((await svcTrace(['check', '-A', '-o', 'json', '--no-progress', ...args], {kubeconfig: cluster.api.kubeconfig})).stdout);
      const [collected, read] = [await check('--agents'), await check()];
      expect(collected.summary).toMatchObject({nodesChecked: 3, nodesUnread: 0});
      expect(collected.findings).toEqual(read.findings);
    } finally {
      for (const agent of agents) await agent[Symbol.asyncDispose]();
    }
  });
});

/** A copy that names no other file. */
function embedded(kubeconfig: string, copy: string): string {
  const text = readFileSync(kubeconfig, 'utf8');
  const data = (_: string, quote: string, file: string) =>
    `certificate-authority-data${quote}: ${quote}${readFileSync(file, 'base64')}${quote}`;
  writeFileSync(copy, text.replace(/certificate-authority("?): "?([^\s",]+)"?/, data));
  return copy;
}

/** What goes before a command that is run by this line of a shell in a root file system that cannot be written, with the host's `/tmp`. */
function inRoot(root: string, line: string): readonly string[] {
  const mounts = `mount --make-rprivate / && mount --bind ${root} ${root} && mount -t proc proc ${root}/proc && mount --rbind /dev ${root}/dev &&
    mount --rbind /tmp ${root}/tmp && mount -o remount,bind,ro ${root} && PATH=/usr/sbin:/usr/bin && cd ${root} && exec ${line}`;
  return ['unshare', '--mount', 'sh', '-c', mounts, 'sh'];
}

async function allCapabilitiesBut(kept: readonly string[]): Promise<string> {
  const {stdout} = await execa('capsh', ['--print']);
  const all = /^Bounding set =(.*)$/m.exec(stdout)?.[1]?.split(',') ?? [];
  return all.filter(name => !kept.includes(name)).join(',');
}
