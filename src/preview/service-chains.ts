/** Chains that belong to one Service port or endpoint, of iptables. */
export const serviceChains = ['KUBE-SVC-', 'KUBE-SVL-', 'KUBE-SEP-', 'KUBE-EXT-', 'KUBE-FW-', 'KUBE-XLB-'];

export const jumpsToServiceChain = new RegExp(`(?:-j|-g|jump|goto) (?:${serviceChains.join('|')})`);
