/**
 * Terminal output as styled lines.
 *
 * Colours and weights are understood; everything else a terminal can be told (cursor movement, titles, links) is
 * dropped. A carriage return starts the line again, which is what progress bars mean by it.
 */

export type Span = { text: string; color?: string; background?: string; classes: string };
export type Line = readonly Span[];

type Style = {
  color: string | undefined;
  background: string | undefined;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  strike: boolean;
  inverse: boolean;
};

const PLAIN: Style = {
  color: undefined,
  background: undefined,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  inverse: false,
};

// CSI, OSC (ended by BEL or ST), other two-character escapes, and control characters nobody can see.
const TOKEN =
  /\u001b\[([0-9;:?<=>]*)[ -/]*([@-~])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|\u001b[ -/]*[0-~]?|[\u0000-\u0008\u000b\u000c\u000e-\u001a\u001c-\u001f\u007f]/g;

export function parseAnsi(text: string): Line[] {
  const lines: Span[][] = [];
  let style = PLAIN;
  for (const raw of text.split("\n")) {
    // Escapes before the last carriage return still count: they set the colour of what follows.
    const restart = raw.replace(/\r+$/, "").lastIndexOf("\r");
    if (restart >= 0) style = readLine(raw.slice(0, restart), style).style;
    const { spans, style: after } = readLine(restart >= 0 ? raw.slice(restart + 1) : raw, style);
    style = after;
    lines.push(spans);
  }
  return lines;
}

/** The words alone. */
export function stripAnsi(text: string): string {
  return parseAnsi(text)
    .map((line) => line.map((span) => span.text).join(""))
    .join("\n");
}

function readLine(line: string, style: Style): { spans: Span[]; style: Style } {
  const spans: Span[] = [];
  const add = (text: string) => {
    const clean = text.replaceAll("\r", "");
    if (clean) spans.push(span(clean, style));
  };
  let end = 0;
  for (const match of line.matchAll(TOKEN)) {
    add(line.slice(end, match.index));
    end = match.index + match[0].length;
    if (match[2] === "m") style = restyled(style, match[1] ?? "");
  }
  add(line.slice(end));
  return { spans, style };
}

function span(text: string, style: Style): Span {
  const classes = [
    style.bold && "ansi-bold",
    style.dim && "ansi-dim",
    style.italic && "ansi-italic",
    style.underline && "ansi-underline",
    style.strike && "ansi-strike",
    style.inverse && !style.color && !style.background && "ansi-inverse",
  ];
  const [color, background] = style.inverse ? [style.background, style.color] : [style.color, style.background];
  return {
    text,
    classes: classes.filter(Boolean).join(" "),
    ...(color && { color }),
    ...(background && { background }),
  };
}

function restyled(style: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/).map((code) => (code === "" ? 0 : Number(code)));
  let next = { ...style };
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i]!;
    if (code === 0) next = { ...PLAIN };
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 7) next.inverse = true;
    else if (code === 9) next.strike = true;
    else if (code === 22) next.bold = next.dim = false;
    else if (code === 23) next.italic = false;
    else if (code === 24) next.underline = false;
    else if (code === 27) next.inverse = false;
    else if (code === 29) next.strike = false;
    else if (code === 39) next.color = undefined;
    else if (code === 49) next.background = undefined;
    else if (code === 38 || code === 48) {
      const [color, used] = extended(codes, i + 1);
      if (code === 38) next.color = color;
      else next.background = color;
      i += used;
    } else if (code >= 30 && code <= 37) next.color = named(code - 30);
    else if (code >= 90 && code <= 97) next.color = named(code - 82);
    else if (code >= 40 && code <= 47) next.background = named(code - 40);
    else if (code >= 100 && code <= 107) next.background = named(code - 92);
  }
  return next;
}

/** The sixteen colours belong to the theme. */
function named(index: number): string {
  return `var(--ansi-${index})`;
}

function extended(codes: readonly number[], at: number): [string | undefined, number] {
  if (codes[at] === 5) return [indexed(codes[at + 1] ?? 0), 2];
  if (codes[at] === 2) {
    const [red = 0, green = 0, blue = 0] = codes.slice(at + 1, at + 4).map((part) => Math.min(255, Math.max(0, part)));
    return [`rgb(${red} ${green} ${blue})`, 4];
  }
  return [undefined, 0];
}

function indexed(index: number): string | undefined {
  if (!(index >= 0 && index <= 255)) return undefined;
  if (index < 16) return named(index);
  if (index >= 232) {
    const level = 8 + (index - 232) * 10;
    return `rgb(${level} ${level} ${level})`;
  }
  const cube = index - 16;
  const channel = (part: number) => (part === 0 ? 0 : 55 + part * 40);
  return `rgb(${channel(Math.floor(cube / 36))} ${channel(Math.floor(cube / 6) % 6)} ${channel(cube % 6)})`;
}
