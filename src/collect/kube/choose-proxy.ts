import {BlockList, isIP} from 'node:net';
import {withoutPassword} from '../../model/text.ts';
import {KubeconfigError} from './kubeconfig.ts';

/**
 * The proxy for the API server: the kubeconfig's proxy-url, or what the environment names for the host. Follows Go's
 * net/http.ProxyFromEnvironment, so that it is the proxy that kubectl uses. Throws KubeconfigError.
 */
export function chooseProxy(server: URL, proxyUrl: string | undefined, environment: NodeJS.ProcessEnv): URL | null {
  if (proxyUrl) return proxyOf(proxyUrl, 'proxy-url');
  const name = server.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  const proxy = either(environment, name);
  if (proxy === '' || isLocal(hostOf(server)) || isExcepted(server, either(environment, 'NO_PROXY'))) return null;
  return proxyOf(/^[a-z0-9]+:\/\//i.test(proxy) ? proxy : `http://${proxy}`, name);
}

const schemes = ['http:', 'https:', 'socks5:', 'socks5h:'];

function proxyOf(text: string, where: string): URL {
  const url = URL.parse(text);
  if (url === null || !schemes.includes(url.protocol)) {
    throw new KubeconfigError(
      `${where} is "${withoutPassword(text).replace(/^.*@/s, '')}", and must be a URL that begins with http://, https:// or socks5://`,
    );
  }
  return url;
}

function either(environment: NodeJS.ProcessEnv, name: string): string {
  return environment[name] || environment[name.toLowerCase()] || '';
}

/** Without the brackets of an IPv6 address. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '');
}

function isLocal(host: string): boolean {
  return host === 'localhost' || /^127\./.test(host) || host === '::1';
}

function isExcepted(server: URL, exceptions: string): boolean {
  const port = server.port || (server.protocol === 'https:' ? '443' : '80');
  return exceptions
    .split(',')
    .map(exception => exception.trim().toLowerCase())
    .some(exception => exception !== '' && matches(exception, hostOf(server).toLowerCase(), port));
}

function matches(exception: string, host: string, port: string): boolean {
  if (exception === '*') return true;
  if (exception.includes('/')) return isWithin(exception, host);
  const {name, onlyPort} = splitPort(exception);
  if (onlyPort !== null && onlyPort !== port) return false;
  if (isIP(name) !== 0) return name === host;
  const domain = name.replace(/^\*/, '');
  return domain.startsWith('.') ? host.endsWith(domain) : host === domain || host.endsWith(`.${domain}`);
}

function splitPort(exception: string): {readonly name: string; readonly onlyPort: string | null} {
  if (isIP(exception) !== 0) return {name: exception, onlyPort: null};
  const [, name = exception, onlyPort = null] = /^\[?(.*?)\]?:(\d+)$/.exec(exception) ?? [];
  return {name, onlyPort};
}

function isWithin(cidr: string, host: string): boolean {
  const [network = '', length = ''] = cidr.split('/');
  const family = isIP(network);
  if (family === 0 || isIP(host) !== family || !/^\d+$/.test(length) || Number(length) > (family === 4 ? 32 : 128)) return false;
  const list = new BlockList();
  const type = family === 4 ? 'ipv4' : 'ipv6';
  list.addSubnet(network, Number(length), type);
  return list.check(host, type);
}
