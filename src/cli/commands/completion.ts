import {Args, Command} from '@oclif/core';
import {packageFile} from '../package-file.ts';

export default class CompletionCommand extends Command {
  static override summary = 'Print the completion script of a shell';
  static override description =
    'The script is for "svc-trace". "kubectl svc-trace" is completed by kubectl\'s own completion, which asks the executable kubectl_complete-svc_trace on PATH.';
  static override examples = [
    'source <(svc-trace completion bash)',
    'source <(svc-trace completion zsh)',
    'svc-trace completion fish > ~/.config/fish/completions/svc-trace.fish',
  ];
  static override args = {
    shell: Args.string({description: 'the shell', options: ['bash', 'zsh', 'fish'], required: true, ignoreStdin: true}),
  };

  async run(): Promise<void> {
    const {args} = await this.parse(CompletionCommand);
    process.stdout.write(packageFile(`completion/svc-trace.${args.shell}`));
  }
}
