// Writes docs/rbac/*.yaml: the Roles for what each way to reach nodes asks of the API server. A test holds the files against the same.
import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {rbacFiles} from './rbac-files.ts';

for (const [name, text] of rbacFiles()) writeFileSync(join(import.meta.dirname, '../docs/rbac', name), text);
