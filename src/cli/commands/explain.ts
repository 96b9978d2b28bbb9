import {Args, Command, Errors} from '@oclif/core';
import {checks} from '../../checks/index.ts';
import {closest} from '../../run/scope/closest.ts';
import {packageFile} from '../package-file.ts';

export default class Explain extends Command {
  static override summary = 'Explain a finding: what it means, how to confirm it, what to do';
  static override examples = ['<%= config.bin %> explain ST203', '<%= config.bin %> explain'];
  static override args = {
    code: Args.string({description: 'a finding code or name; without it all findings are listed', required: false, ignoreStdin: true}),
  };

  async run(): Promise<void> {
    const {args} = await this.parse(Explain);
    if (args.code === undefined) {
      const width = Math.max(...checks.map(({name}) => name.length));
      for (const {code, name, severity, summary} of checks)
        process.stdout.write(`${code}  ${name.padEnd(width)}  ${severity.padEnd(7)}  ${summary}\n`);
      return;
    }
    const code = args.code.toUpperCase();
    const known = checks.map(check => check.code as string);
    if (!known.includes(code))
      throw new Errors.CLIError(`there is no finding code ${args.code}`, {exit: 2, suggestions: [...closest(code, known)]});
    process.stdout.write(packageFile(`docs/checks/${code}.md`));
  }
}
