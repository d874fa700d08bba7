/**
 * Markdown as elements, made from tokens: no HTML is ever parsed or set.
 *
 * What looks like HTML is shown as the text it is, links are checked, pictures from elsewhere are not loaded. A block that did
 * not change is not drawn again.
 */

import type { Token, Tokens } from "marked";
import { createElement, Fragment, memo, type ReactNode, useRef } from "react";
import { type Blocks, parseBlocks, parseWhole } from "./blocks.js";
import { CodeBlock } from "./code-block.js";
import { decodeEntities } from "./entities.js";
import { safeLink } from "./links.js";

export const Markdown = memo(function Markdown({ text, live = false }: { text: string; live?: boolean }) {
  const blocks = useRef<Blocks | undefined>(undefined);
  // While it grows, from what is known; once it is whole, all of it: a definition at the end may name a link at the start.
  blocks.current = live ? parseBlocks(text, blocks.current) : parseWhole(text, blocks.current);
  const { tokens } = blocks.current;
  const levels = headingLevels(tokens);
  return (
    <div className="markdown">
      {tokens.map((token, index) =>
        token.type === "space" || token.type === "def" ? null : (
          <Block
            key={index}
            token={token}
            level={levels[index] ?? 0}
            growing={live}
            last={live && index === tokens.length - 1}
          />
        ),
      )}
    </div>
  );
});

/**
 * The level of each heading: the page has the first one, and none may be skipped, whatever the model wrote. What comes later changes
 * nothing before it.
 */
function headingLevels(tokens: readonly Token[]): readonly number[] {
  const depths: number[] = [];
  return tokens.map((token) => {
    if (token.type !== "heading") return 0;
    const { depth } = token as Tokens.Heading;
    while (depths.length > 0 && depths.at(-1)! >= depth) depths.pop();
    depths.push(depth);
    return Math.min(6, 1 + depths.length);
  });
}

type BlockProps = { token: Token; level: number; growing: boolean; last: boolean };

const Block = memo(
  function Block({ token, level, last }: BlockProps) {
    return <>{block(token, last, level)}</>;
  },
  (before, after) =>
    before.last === after.last &&
    before.level === after.level &&
    (before.token === after.token || isSameWhileGrowing(before, after)),
);

/**
 * The last two blocks are parsed at every token and mostly come out the same. Only while the reply grows: a link definition
 * changes what a block means and not one letter of it.
 */
function isSameWhileGrowing(before: BlockProps, after: BlockProps): boolean {
  const [was, is] = [before.token, after.token];
  return before.growing && after.growing && was.type === is.type && was.raw === is.raw && !/\]/.test(is.raw);
}

function block(token: Token, live: boolean, level = 0): ReactNode {
  switch (token.type) {
    case "paragraph":
      return <p>{inline(token.tokens)}</p>;
    case "text":
      return token.tokens ? inline(token.tokens) : decodeEntities(token.text);
    case "heading":
      // In a quote or a list it belongs to no outline: there it only looks like one.
      return createElement(level > 0 ? `h${level}` : "p", { className: `depth-${token.depth}` }, inline(token.tokens));
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

/** No fragment around each phrase: in a long reply that is as much memory again as the words. */
function inline(tokens: readonly Token[] | undefined): ReactNode {
  return tokens?.map(phrase);
}

function phrase(token: Token, key: number): ReactNode {
  switch (token.type) {
    case "text":
      return token.tokens ? <Fragment key={key}>{inline(token.tokens)}</Fragment> : decodeEntities(token.text);
    case "escape":
      return token.text;
    case "strong":
      return <strong key={key}>{inline(token.tokens)}</strong>;
    case "em":
      return <em key={key}>{inline(token.tokens)}</em>;
    case "del":
      return <del key={key}>{inline(token.tokens)}</del>;
    case "codespan":
      return <code key={key}>{token.text}</code>;
    case "br":
      return <br key={key} />;
    case "link":
      return (
        <Link key={key} href={token.href}>
          {inline(token.tokens)}
        </Link>
      );
    case "image":
      return <Link key={key} href={token.href}>{`[image: ${token.text || token.href}]`}</Link>;
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
