/**
 * Coloured code, without HTML: lines of pieces with class names.
 *
 * The colours come late (a chunk of their own) and may never come (a language nobody knows); the text is there from the start.
 */

import { useEffect, useMemo, useRef, useState } from "react";

export type Piece = { text: string; classes: string };
export type CodeLine = readonly Piece[];

/** Code that still grows is coloured a few times a second, up to its last whole line. */
const LIVE_INTERVAL_MS = 200;

/** Beyond this it costs more than it helps. */
const LONGEST = 60_000;

const REMEMBERED = 200;
const remembered = new Map<string, readonly CodeLine[]>();

type Languages = typeof import("./languages.js");
let loading: Promise<Languages> | undefined;

const EXTENSIONS: Record<string, string> = {
  py: "python",
  pyi: "python",
  ts: "typescript",
  tsx: "typescript",
  js: "javascript",
  mjs: "javascript",
  jsx: "javascript",
  rs: "rust",
  rb: "ruby",
  sh: "bash",
  yml: "yaml",
  md: "markdown",
  html: "xml",
  svg: "xml",
  h: "c",
  hpp: "cpp",
  cc: "cpp",
  cs: "csharp",
  kt: "kotlin",
  toml: "ini",
  cfg: "ini",
};

export function languageOf(path: string): string {
  const name = path.split("/").at(-1) ?? "";
  if (/^(Dockerfile|Makefile)$/.test(name)) return name.toLowerCase();
  const extension = /\.([A-Za-z0-9]+)$/.exec(name)?.[1]?.toLowerCase() ?? "";
  return EXTENSIONS[extension] ?? extension;
}

/** Coloured lines, and the text after them that has no colour yet. */
export type Highlighted = { lines: readonly CodeLine[]; rest: string };

type Coloured = { source: string; language: string; lines: readonly CodeLine[] };

/** `live`: more is coming. */
export function useHighlighted(code: string, language: string, { live = false } = {}): Highlighted {
  const source = live ? code.slice(0, code.lastIndexOf("\n") + 1) : code;
  const [coloured, setColoured] = useState<Coloured | null>(null);
  const colouredAt = useRef(0);

  useEffect(() => {
    if (language === "" || source.length > LONGEST) return;
    const colour = async () => {
      const { highlightLines, knows } = await languages();
      if (gone || !knows(language)) return;
      colouredAt.current = performance.now();
      // Code that grows is different every time: to remember each generation of it would be quadratic.
      const lines = live ? highlightLines(source, language) : remember(source, language, highlightLines);
      setColoured({ source, language, lines });
    };
    let gone = false;
    const wait = live ? Math.max(0, colouredAt.current + LIVE_INTERVAL_MS - performance.now()) : 0;
    const timer = setTimeout(() => void colour(), wait);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [source, language, live]);

  return useMemo(() => {
    const lines = recall(code, language);
    if (lines) return { lines, rest: "" };
    const usable = coloured && coloured.language === language && code.startsWith(coloured.source);
    return usable ? { lines: coloured.lines, rest: code.slice(coloured.source.length) } : { lines: [], rest: code };
  }, [code, language, coloured]);
}

function languages(): Promise<Languages> {
  loading ??= import("./languages.js");
  return loading;
}

function recall(code: string, language: string): readonly CodeLine[] | null {
  return remembered.get(`${language}\n${code}`) ?? null;
}

function remember(code: string, language: string, highlight: Languages["highlightLines"]): readonly CodeLine[] {
  const key = `${language}\n${code}`;
  let lines = remembered.get(key);
  if (!lines) {
    lines = highlight(code, language);
    if (remembered.size >= REMEMBERED) remembered.delete(remembered.keys().next().value!);
    remembered.set(key, lines);
  }
  return lines;
}
