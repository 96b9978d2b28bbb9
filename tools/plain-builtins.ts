import type {Plugin} from 'esbuild';

/**
 * Node.js makes a module of a builtin when it is imported, and looks at all that it exports for that. Two of the exports of `node:http`
 * (`WebSocket` and its kin) are loaded when they are looked at, undici with them: 40 ms that nobody asked for. Asked for in this way,
 * a builtin is only what it always was.
 */
export const plainBuiltins: Plugin = {
  name: 'plain-builtins',
  setup(build) {
    build.onResolve({filter: /^(node:)?https?$/}, ({path}) => ({path: path.replace(/^node:/, ''), namespace: 'plain-builtin'}));
    build.onLoad({filter: /.*/, namespace: 'plain-builtin'}, ({path}) => ({
      contents: `module.exports = process.getBuiltinModule('node:${path}');`,
    }));
  },
};
