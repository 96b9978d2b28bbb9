import {readFileSync} from 'node:fs';
import {join} from 'node:path';

const deploy = join(import.meta.dirname, '../deploy');

export const rulesFile: string = join(deploy, 'monitoring/svc-trace.rules.yaml');
export const prometheusRuleFile: string = join(deploy, 'components/prometheus-operator/prometheus-rule.yaml');

/** The rules, comments and all, as the object that the Prometheus operator reads. */
export function prometheusRuleText(): string {
  const rules = readFileSync(rulesFile, 'utf8');
  const groups = rules.slice(rules.indexOf('groups:')).trimEnd().split('\n');
  return `${heading}\n${groups.map(line => `  ${line}`).join('\n')}\n`;
}

const heading = `# Made from monitoring/svc-trace.rules.yaml by "npm run rules". The operator must select it: see ruleSelector and
# ruleNamespaceSelector of your Prometheus.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: svc-trace
  namespace: svc-trace
  labels:
    app.kubernetes.io/part-of: svc-trace
spec:`;
