/**
 * Markdown that grows: blocks that are finished are parsed once.
 *
 * Text only arrives at the end, and in Markdown what comes later changes at most the last block. So everything
 * but the last two blocks is kept as it is, with its identity, and a renderer that remembers blocks has nothing to do for them.
 */

import { Lexer, type Token } from "marked";

export type Blocks = { text: string; tokens: readonly Token[] };

const NOTHING: Blocks = { text: "", tokens: [] };

export function parseBlocks(source: string, before: Blocks = NOTHING): Blocks {
  // The lexer would do this itself, and its positions would no longer be ours.
  const text = source.replace(/\r\n?/g, "\n");
  if (text === before.text) return before;
  const kept = text.startsWith(before.text) ? settled(before.tokens) : [];
  const offset = kept.reduce((length, token) => length + token.raw.length, 0);
  return { text, tokens: [...kept, ...lex(text.slice(offset))] };
}

function settled(tokens: readonly Token[]): readonly Token[] {
  let blocks = 0;
  for (let i = tokens.length - 1; i >= 0; i--) {
    if (tokens[i]!.type !== "space" && ++blocks === 2) return tokens.slice(0, i);
  }
  return [];
}

/** A paragraph made to keep a parser busy: nobody reads it, so nobody needs it formatted. */
const LONG_PARAGRAPH = 2_000;
const DENSE = 0.25;
const DEEP = /^[ \t>]{200}/m;

function busywork(text: string): boolean {
  if (DEEP.test(text)) return true;
  return text.split(/\n[ \t]*\n/).some((paragraph) => {
    if (paragraph.length < LONG_PARAGRAPH) return false;
    return (paragraph.match(/[*_~[<]/g)?.length ?? 0) > paragraph.length * DENSE;
  });
}

function lex(text: string): readonly Token[] {
  const plain: Token = { type: "plain", raw: text };
  if (busywork(text)) return [plain];
  try {
    return new Lexer({ gfm: true, breaks: false }).lex(text);
  } catch {
    // Nested deeper than the stack: it is still text.
    return [plain];
  }
}
