/** What completion and help both need to know about a flag: a part of oclif's data. */
export interface FlagParts {
  readonly name: string;
  readonly char?: string | undefined;
  readonly type: 'option' | 'boolean';
  readonly description?: string | undefined;
  readonly options?: readonly string[] | undefined;
  readonly allowNo?: boolean | undefined;
  readonly helpValue?: string | readonly string[] | undefined;
  readonly hidden?: boolean | undefined;
}

export interface ArgumentParts {
  readonly name: string;
  readonly options?: readonly string[] | undefined;
}

/** What both need to know about a command. */
export interface CommandParts<Flag extends FlagParts, Argument extends ArgumentParts> {
  readonly id: string;
  readonly summary?: string | undefined;
  readonly flags: Readonly<Record<string, Flag>>;
  readonly args?: Readonly<Record<string, Argument>> | undefined;
  /** False if more arguments may follow than are named. */
  readonly strict?: boolean | undefined;
}
