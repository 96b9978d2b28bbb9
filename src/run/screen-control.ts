/** Escape sequences of a screen that redraws itself: the alternate screen with the cursor hidden, and back. */
export const enter = '\u001b[?1049h\u001b[?25l';
export const leave = '\u001b[?25h\u001b[?1049l';
export const home = '\u001b[H';
/** Clear to the end of the line, and of the screen. */
export const toLineEnd = '\u001b[K';
export const toScreenEnd = '\u001b[J';
