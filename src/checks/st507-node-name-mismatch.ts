import {symptomCheck} from './symptom-check.ts';

export const nodeNameMismatch = symptomCheck({
  code: 'ST507',
  name: 'node-name-mismatch',
  severity: 'error',
  summary: "The node's rules treat none of the API's local endpoints as local: kube-proxy runs under another node name",
  remedy: 'Start kube-proxy with --hostname-override set to the name of the Node object (metadata.name).',
});
