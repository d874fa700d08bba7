/** A block of code: its language, a copy button, and colours as soon as there are some. */

import { memo } from "react";
import { CopyButton } from "../shell/copy.js";
import { type CodeLine, useHighlighted } from "./highlight.js";

export const CodeBlock = memo(function CodeBlock({
  code,
  language,
  live = false,
}: {
  code: string;
  language: string;
  live?: boolean;
}) {
  const { lines, rest } = useHighlighted(code, language, { live });
  return (
    <figure className="code">
      <figcaption>
        <span>{language || "text"}</span>
        <CopyButton text={code} label="Copy code" />
      </figcaption>
      <pre tabIndex={0} aria-label={`${language || "text"} code`} role="group">
        <code>
          {lines.map((line, index) => (
            <Pieces key={index} line={line} end={index < lines.length - 1} />
          ))}
          {rest}
        </code>
      </pre>
    </figure>
  );
});

const Pieces = memo(
  function Pieces({ line, end }: { line: CodeLine; end: boolean }) {
    return (
      <>
        <CodePieces line={line} />
        {end && "\n"}
      </>
    );
  },
  (before, after) => before.end === after.end && sameLine(before.line, after.line),
);

export function CodePieces({ line }: { line: CodeLine }) {
  return line.map(({ text, classes }, index) =>
    classes ? (
      <span key={index} className={classes}>
        {text}
      </span>
    ) : (
      text
    ),
  );
}

function sameLine(a: CodeLine, b: CodeLine): boolean {
  return (
    a === b ||
    (a.length === b.length && a.every((piece, i) => piece.text === b[i]!.text && piece.classes === b[i]!.classes))
  );
}
