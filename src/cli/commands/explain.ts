import {Args, Command} from '@oclif/core';
import {checks} from '../../checks/index.ts';
import {findingCode} from '../../run/options/evaluation-options.ts';
import {packageFile} from '../package-file.ts';

export default class ExplainCommand extends Command {
  static override summary = 'Explain a finding: what it means, how to confirm it, what to do';
  static override examples = ['<%= config.bin %> explain ST203', '<%= config.bin %> explain'];
  static override args = {
    code: Args.string({description: 'a finding code or name; without it all findings are listed', required: false, ignoreStdin: true}),
  };

  async run(): Promise<void> {
    const {args} = await this.parse(ExplainCommand);
    if (args.code === undefined) {
      const width = Math.max(...checks.map(({name}) => name.length));
      for (const {code, name, severity, summary} of checks)
        process.stdout.write(`${code}  ${name.padEnd(width)}  ${severity.padEnd(7)}  ${summary}\n`);
      return;
    }
    const code = findingCode(args.code);
    process.stdout.write(packageFile(`docs/checks/${code}.md`));
  }
}
