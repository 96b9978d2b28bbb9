import type {BrowserPage} from './browser.ts';

/** What is wrong with how a page or an SVG is drawn, in words that name the text. Nothing that is hidden counts. */
export async function drawingFaults(page: BrowserPage): Promise<readonly string[]> {
  return page.evaluate(`(() => {
    const isSeen = element => element.checkVisibility({contentVisibilityAuto: true}) && element.getBoundingClientRect().width > 0;
    const seen = (selector, root = document) => [...root.querySelectorAll(selector)].filter(isSeen);
    const place = element => element.getBoundingClientRect();
    const name = element => element.textContent.replaceAll(/\\s+/g, ' ').trim().slice(0, 60);
    const overlap = (a, b) => Math.min(a.right - b.left, b.right - a.left, a.bottom - b.top, b.bottom - a.top) > 1;
    const isInside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 2 && a.bottom <= b.bottom + 2;
    const pairs = list => list.flatMap((one, index) => list.slice(index + 1).map(other => [one, other]));
    const faults = [];
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) faults.push('the page is ' + root.scrollWidth + ' wide in a window of ' + root.clientWidth);
    const pictures = root.tagName === 'svg' ? [root] : seen('svg');
    for (const svg of pictures) {
      const frame = place(svg);
      if (frame.left < 0 || frame.right > innerWidth) faults.push('a picture is wider than the window');
      const boxes = seen('rect.box', svg);
      const texts = seen('text', svg);
      for (const each of [...boxes, ...texts]) if (!isInside(place(each), frame)) faults.push('outside of the picture: ' + name(each));
      for (const box of boxes)
        for (const text of seen('text', box.parentElement))
          if (!isInside(place(text), place(box))) faults.push('out of its box: ' + name(text));
      for (const [one, other] of pairs(boxes))
        if (overlap(place(one), place(other))) faults.push('boxes overlap: ' + name(one.parentElement) + ' | ' + name(other.parentElement));
      for (const [one, other] of pairs(texts)) if (overlap(place(one), place(other))) faults.push('words overlap: ' + name(one) + ' | ' + name(other));
      for (const text of texts)
        for (const bar of seen('.track, .expected', svg))
          if (overlap(place(text), place(bar))) faults.push('a bar covers ' + name(text));
      for (const line of seen('.arrow', svg)) {
        // A rail is one line down with lines to both sides, so that the frame of a line is the line.
        const {left, right, top, bottom} = place(line);
        for (const box of boxes) {
          const other = place(box);
          if (left < other.right - 2 && right > other.left + 8 && top < other.bottom - 2 && bottom > other.top + 2)
            faults.push('a line crosses ' + name(box.parentElement));
        }
      }
    }
    // Words that are cut off, or run out of what holds them. Tables may scroll inside a region of their own.
    for (const element of seen('body *'))
      if (element.closest('svg, .scroll') === null && element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== 'inline'
        && !['INPUT', 'TEXTAREA', 'SELECT', 'OPTION'].includes(element.tagName)) faults.push('wider than its place: ' + element.tagName + ' ' + name(element));
    return faults;
  })()`);
}

/** Texts, bars and lines whose contrast is less than WCAG AA asks for: 4.5 to 1 for text, 3 to 1 for large text and for graphics. */
export async function contrastFaults(page: BrowserPage): Promise<readonly string[]> {
  return page.evaluate(`(() => {
    const parse = color => {
      const numbers = (color.match(/[\\d.]+/g) || []).map(Number);
      return color === 'none' || numbers[3] === 0 || color === 'transparent' ? null : numbers.slice(0, 3);
    };
    const light = color => {
      const [r, g, b] = color.map(value => value / 255).map(value => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (one, other) => {
      const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
      return (high + 0.05) / (low + 0.05);
    };
    const isSeen = element => element.checkVisibility({contentVisibilityAuto: true}) && element.getBoundingClientRect().width > 0;
    const ground = element => {
      for (let at = element; at !== null; at = at.parentElement) {
        const box = at.tagName === 'g' ? at.querySelector(':scope > rect.box') : at.tagName === 'svg' ? at.querySelector(':scope > rect.ground') : null;
        const color = parse(box === null ? getComputedStyle(at).backgroundColor : getComputedStyle(box).fill);
        if (color !== null) return color;
      }
      return [255, 255, 255];
    };
    const faults = [];
    const check = (element, color, behind, least) => {
      const found = contrast(color, behind);
      if (found < least) faults.push(element.tagName + '.' + (element.getAttribute('class') || '') + ' ' + found.toFixed(2) + ': ' + element.textContent.trim().slice(0, 40));
    };
    const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const element = node.parentElement;
      if (node.textContent.trim() === '' || !isSeen(element) || element.closest('title, desc, style, script, head') !== null) continue;
      const style = getComputedStyle(element);
      const size = Number.parseFloat(style.fontSize);
      const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      const color = parse(element.ownerSVGElement ? style.fill : style.color);
      if (color !== null) check(element, color, ground(element), isLarge ? 3 : 4.5);
    }
    for (const bar of [...document.querySelectorAll('rect.bar')].filter(isSeen))
      check(bar, parse(getComputedStyle(bar).fill), parse(getComputedStyle(bar.parentElement.querySelector('.track')).fill), 3);
    for (const line of [...document.querySelectorAll('.arrow')].filter(isSeen))
      check(line, parse(getComputedStyle(line).stroke), ground(line.parentElement), 3);
    for (const box of [...document.querySelectorAll('rect.box')].filter(isSeen))
      check(box, parse(getComputedStyle(box).stroke), ground(box.parentElement.parentElement), 3);
    return [...new Set(faults)];
  })()`);
}
