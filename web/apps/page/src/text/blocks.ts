/**
 * Markdown that grows: blocks that are finished are parsed once.
 *
 * Text only arrives at the end, and in Markdown what comes later changes at most the last block. So everything but the last two blocks is
 * kept as it is, with its identity, and a renderer that remembers blocks has nothing to do for them. The one exception are link
 * definitions (`[name]: address`), which also change earlier blocks: when one is complete, everything is parsed again.
 */

import { Lexer, type Links, type Token, Tokenizer } from "marked";

export type Blocks = {
  text: string;
  tokens: readonly Token[];
  /** The link definitions that the tokens were parsed with. */
  links: Links;
  /** How often everything was parsed again for a new definition. */
  wholeParses: number;
};

const NOTHING: Blocks = { text: "", tokens: [], links: {}, wholeParses: 0 };

/** A reply with hundreds of definitions would be parsed hundreds of times. The rest of them waits for the end of the reply. */
const MOST_WHOLE_PARSES = 8;

export function parseBlocks(source: string, before: Blocks = NOTHING): Blocks {
  // The lexer would do this itself, and its positions would no longer be ours.
  const text = source.replace(/\r\n?/g, "\n");
  if (text === before.text) return before;
  const kept = text.startsWith(before.text) ? settled(before.tokens) : [];
  if (kept.length === 0) {
    const { tokens, links } = lex(text, {});
    return { text, tokens, links: settledLinks(tokens, links), wholeParses: before.wholeParses };
  }
  const offset = kept.reduce((length, token) => length + token.raw.length, 0);
  const { tokens, links } = lex(flat(text.slice(offset)), before.links);
  const all = [...kept, ...tokens];
  const known = settledLinks(all, links);
  const isNew = Object.keys(known).some((name) => !(name in before.links));
  if (!isNew || before.wholeParses >= MOST_WHOLE_PARSES)
    return { text, tokens: all, links: before.links, wholeParses: before.wholeParses };
  return { text, tokens: lex(flat(text), known).tokens, links: known, wholeParses: before.wholeParses + 1 };
}

/** All of it at once, for text that no longer grows. What comes out as it was keeps its identity. */
export function parseWhole(source: string, before: Blocks = NOTHING): Blocks {
  const text = source.replace(/\r\n?/g, "\n");
  const { tokens, links } = lex(flat(text), {});
  const defined = Object.keys(links).length > 0;
  const same = (token: Token, known: Token | undefined) =>
    known && known.type === token.type && known.raw === token.raw ? known : token;
  return {
    text,
    // A definition changes what a block means and not one letter of it.
    tokens: defined ? tokens : tokens.map((token, index) => same(token, before.tokens[index])),
    links,
    wholeParses: 0,
  };
}

/**
 * A copy that shares no memory with the text it was cut from.
 *
 * An engine cuts strings by pointing into the whole, and tokens are pieces of what the lexer was given: without this, every kept
 * block would hold on to the whole reply as it was when that block arrived, which is quadratic in the length of the reply.
 */
function flat(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}

/** The tokens that no further text can change. */
function settled(tokens: readonly Token[]): readonly Token[] {
  let blocks = 0;
  for (let i = tokens.length - 1; i >= 0; i--) {
    if (tokens[i]!.type !== "space" && ++blocks === 2) return tokens.slice(0, i);
  }
  return [];
}

/** Definitions that are complete. The first one of a name counts. */
function settledLinks(tokens: readonly Token[], links: Links): Links {
  const found: Links = {};
  for (const token of settled(tokens)) {
    if (token.type !== "def") continue;
    const { tag } = token as unknown as { tag: string };
    if (links[tag]) found[tag] ??= links[tag];
  }
  return found;
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

/** `[^1]: words` is a footnote. Taken for a link definition its words would be shown nowhere. */
class WithoutFootnotes extends Tokenizer {
  override def(src: string) {
    return /^ {0,3}\[\^/.test(src) ? undefined : super.def(src);
  }
}

function lex(text: string, links: Links): { tokens: readonly Token[]; links: Links } {
  const plain: Token = { type: "plain", raw: text };
  if (busywork(text)) return { tokens: [plain], links };
  try {
    const lexer = new Lexer({ gfm: true, breaks: false, tokenizer: new WithoutFootnotes() });
    Object.assign(lexer.tokens.links, links);
    const tokens = lexer.lex(text);
    return { tokens, links: lexer.tokens.links };
  } catch {
    // Nested deeper than the stack: it is still text.
    return { tokens: [plain], links };
  }
}
