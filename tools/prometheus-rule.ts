// Writes the PrometheusRule of deploy/ from the rules for Prometheus itself. A test holds the file against the same.
import {writeFileSync} from 'node:fs';
import {prometheusRuleFile, prometheusRuleText} from './prometheus-rule-text.ts';

writeFileSync(prometheusRuleFile, prometheusRuleText());
