/** The port number for a name of /etc/services, as `iptables -L` without `-n` prints it; null if unknown. */
function portNumber(name: string): number | null {
  if (/^\d+$/.test(name)) return Number(name);
  return Object.hasOwn(ports, name) ? (ports[name] ?? null) : null;
}

/** `http:https` as `80:443`; null if one of them is unknown. */
export function portRange(text: string): string | null {
  const ends = text.split(':').map(end => (end === '' ? '' : portNumber(end)));
  return ends.includes(null) ? null : ends.join(':');
}

/** Names that are the same in Debian's and Red Hat's /etc/services, of ports that Services and nodes use. */
const ports: Readonly<Record<string, number>> = {
  ...{echo: 7, discard: 9, 'ftp-data': 20, ftp: 21, ssh: 22, telnet: 23, smtp: 25, domain: 53, bootps: 67, bootpc: 68, tftp: 69},
  ...{gopher: 70, finger: 79, http: 80, kerberos: 88, pop3: 110, sunrpc: 111, nntp: 119, ntp: 123, 'netbios-ns': 137},
  ...{'netbios-dgm': 138, 'netbios-ssn': 139, imap2: 143, imap: 143, snmp: 161, 'snmp-trap': 162, snmptrap: 162, bgp: 179, irc: 194},
  ...{ldap: 389, https: 443, 'microsoft-ds': 445, kpasswd: 464, submission: 587, syslog: 514, ldaps: 636, 'domain-s': 853},
  ...{rsync: 873, imaps: 993, pop3s: 995, socks: 1080, 'ms-sql-s': 1433, 'ms-sql-m': 1434, mysql: 3306, nfs: 2049, svn: 3690},
  ...{'iscsi-target': 3260, 'ms-wbt-server': 3389, postgresql: 5432, amqp: 5672, amqps: 5671, sip: 5060, 'sip-tls': 5061, redis: 6379},
  ...{'http-alt': 8080, webcache: 8080, 'pcsync-https': 8443, 'xmpp-client': 5222, 'xmpp-server': 5269, mqtt: 1883},
  ...{'secure-mqtt': 8883, git: 9418, zabbixagent: 10_050, 'zabbix-agent': 10_050, 'zabbix-trapper': 10_051, openvpn: 1194},
  ...{radius: 1812, 'radius-acct': 1813, l2f: 1701, mdns: 5353, vxlan: 4789, etcdclient: 2379, 'etcd-client': 2379, 'etcd-server': 2380},
};
