/**
 * Markdown as elements, made from tokens: no HTML is ever parsed or set.
 *
 * What looks like HTML is shown as the text it is, links are checked, pictures from elsewhere are not loaded. A block that did
 * not change is not drawn again.
 */

import type { Token, Tokens } from "marked";
import { createElement, Fragment, memo, type ReactNode, useRef } from "react";
import { type Blocks, parseBlocks } from "./blocks.js";
import { CodeBlock } from "./code-block.js";
import { decodeEntities } from "./entities.js";
import { safeLink } from "./links.js";

export const Markdown = memo(function Markdown({ text, live = false }: { text: string; live?: boolean }) {
  const blocks = useRef<Blocks | undefined>(undefined);
  // While it grows, from what is known; once it is whole, all of it: a definition at the end may name a link at the start.
  blocks.current = live ? parseBlocks(text, blocks.current) : parseBlocks(text);
  const { tokens } = blocks.current;
  return (
    <div className="markdown">
      {tokens.map((token, index) =>
        token.type === "space" || token.type === "def" ? null : (
          <Block key={index} token={token} live={live && index === tokens.length - 1} />
        ),
      )}
    </div>
  );
});

const Block = memo(
  function Block({ token, live }: { token: Token; live: boolean }) {
    return <>{block(token, live)}</>;
  },
  (before, after) =>
    before.live === after.live && before.token.type === after.token.type && before.token.raw === after.token.raw,
);

function block(token: Token, live: boolean): ReactNode {
  switch (token.type) {
    case "paragraph":
      return <p>{inline(token.tokens)}</p>;
    case "text":
      return token.tokens ? inline(token.tokens) : decodeEntities(token.text);
    case "heading":
      // The page has its own first and second level.
      return createElement(`h${Math.min(6, token.depth + 2)}`, null, inline(token.tokens));
    case "code":
      return <CodeBlock code={token.text} language={languageName(token.lang)} live={live} />;
    case "blockquote":
      return <blockquote>{blocks(token.tokens)}</blockquote>;
    case "list":
      return list(token as Tokens.List);
    case "table":
      return table(token as Tokens.Table);
    case "hr":
      return <hr />;
    case "html":
    case "plain":
      return <p className="literal">{token.raw}</p>;
    default:
      return <p>{token.raw}</p>;
  }
}

function blocks(tokens: readonly Token[] | undefined): ReactNode {
  return tokens?.map((token, index) =>
    token.type === "space" ? null : <Fragment key={index}>{block(token, false)}</Fragment>,
  );
}

function list(token: Tokens.List): ReactNode {
  const items = token.items.map((item, index) => (
    <li key={index} className={item.task ? "task" : undefined}>
      {item.task && (
        <input type="checkbox" checked={item.checked ?? false} disabled aria-label={item.checked ? "done" : "to do"} />
      )}
      {blocks(item.tokens.filter(({ type }) => (type as string) !== "checkbox"))}
    </li>
  ));
  return token.ordered ? <ol start={token.start === "" ? 1 : token.start}>{items}</ol> : <ul>{items}</ul>;
}

function table({ header, align, rows }: Tokens.Table): ReactNode {
  return (
    <div className="table" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            {header.map((cell, index) => (
              <th key={index} scope="col" data-align={align[index]}>
                {inline(cell.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={column} data-align={align[column]}>
                  {inline(cell.tokens)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: readonly Token[] | undefined): ReactNode {
  return tokens?.map((token, index) => <Fragment key={index}>{phrase(token)}</Fragment>);
}

function phrase(token: Token): ReactNode {
  switch (token.type) {
    case "text":
      return token.tokens ? inline(token.tokens) : decodeEntities(token.text);
    case "escape":
      return token.text;
    case "strong":
      return <strong>{inline(token.tokens)}</strong>;
    case "em":
      return <em>{inline(token.tokens)}</em>;
    case "del":
      return <del>{inline(token.tokens)}</del>;
    case "codespan":
      return <code>{token.text}</code>;
    case "br":
      return <br />;
    case "link":
      return <Link href={token.href}>{inline(token.tokens)}</Link>;
    case "image":
      return <Link href={token.href}>{`[image: ${token.text || token.href}]`}</Link>;
    default:
      return token.raw;
  }
}

function Link({ href, children }: { href: string; children: ReactNode }) {
  const safe = safeLink(href);
  if (!safe) return <span title={href}>{children}</span>;
  return (
    <a href={safe} target="_blank" rel="noopener noreferrer nofollow" title={safe}>
      {children}
    </a>
  );
}

function languageName(info: string | undefined): string {
  return /^[\w+#.-]{1,24}/.exec(info ?? "")?.[0].toLowerCase() ?? "";
}
