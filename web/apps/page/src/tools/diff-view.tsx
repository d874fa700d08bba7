/** Changed files, in one column or side by side. */

import type { FileChange } from "@hames/client";
import { memo, type ReactNode, useId, useMemo, useState } from "react";
import { Icon } from "../shell/icons.js";
import { useRemembered } from "../shell/storage.js";
import { CodePieces } from "../text/code-block.js";
import { countChanges, type DiffLine, type Hunk, pairs, parseDiff } from "../text/diff.js";
import { shortPath } from "../text/format.js";
import { type CodeLine, languageOf, type Piece, useHighlighted } from "../text/highlight.js";
import { useThreadTools } from "../thread/context.js";

/** More than this is opened by hand. */
const LONG_DIFF = 400;

const SIDES = ["unified", "split"] as const;
export type Sides = (typeof SIDES)[number];

export function useSides(): [Sides, (sides: Sides) => void] {
  return useRemembered<Sides>("diff", SIDES);
}

export function SidesSwitch({ sides, onChange }: { sides: Sides; onChange: (sides: Sides) => void }) {
  return (
    <div className="switch" role="group" aria-label="Diff layout">
      {SIDES.map((word) => (
        <button key={word} type="button" aria-pressed={sides === word} onClick={() => onChange(word)}>
          {word === "unified" ? "Unified" : "Side by side"}
        </button>
      ))}
    </div>
  );
}

export const WORDS = { add: "Added", modify: "Changed", delete: "Deleted" } as const;

export const FileDiff = memo(function FileDiff({
  change,
  sides,
  open: first,
}: {
  change: FileChange;
  sides: Sides;
  open?: boolean;
}) {
  const { cwd } = useThreadTools();
  const hunks = useMemo(() => parseDiff(change.diff), [change.diff]);
  const { added, deleted } = useMemo(() => countChanges(hunks), [hunks]);
  const [open, setOpen] = useState(first ?? added + deleted <= LONG_DIFF);
  const bodyId = useId();
  const path = shortPath(change.path, cwd);
  return (
    <div className="file-diff">
      <button
        type="button"
        className="file-diff-head"
        aria-expanded={open}
        aria-controls={bodyId}
        onClick={() => setOpen(!open)}
      >
        <Icon name="chevron" size={12} className="chevron" />
        <span className={`change-kind ${change.kind}`}>{WORDS[change.kind]}</span>
        <span className="path">{path}</span>
        <ChangeCounts added={added} deleted={deleted} />
      </button>
      <div id={bodyId} hidden={!open}>
        {open && <Hunks hunks={hunks} path={path} sides={sides} raw={change.diff} />}
      </div>
    </div>
  );
});

/** Where the file is named already. */
export const BareDiff = memo(function BareDiff({ change, sides }: { change: FileChange; sides: Sides }) {
  const { cwd } = useThreadTools();
  const hunks = useMemo(() => parseDiff(change.diff), [change.diff]);
  return <Hunks hunks={hunks} path={shortPath(change.path, cwd)} sides={sides} raw={change.diff} />;
});

export function ChangeCounts({ added, deleted }: { added: number; deleted: number }) {
  return (
    <span className="counts">
      <span className="added" aria-label={`${added} added`}>
        +{added}
      </span>{" "}
      <span className="deleted" aria-label={`${deleted} deleted`}>
        −{deleted}
      </span>
    </span>
  );
}

function Hunks({ hunks, path, sides, raw }: { hunks: readonly Hunk[]; path: string; sides: Sides; raw: string }) {
  if (hunks.length === 0) return <p className="diff-empty">{raw || "No text to compare"}</p>;
  return (
    <div className="diff" tabIndex={0} role="group" aria-label={`Changes to ${path}`}>
      <table className={sides}>
        {sides === "split" && (
          <colgroup>
            <col className="number" />
            <col />
            <col className="number" />
            <col />
          </colgroup>
        )}
        {hunks.map((hunk, index) => (
          <HunkRows key={index} hunk={hunk} first={index === 0} language={languageOf(path)} sides={sides} />
        ))}
      </table>
    </div>
  );
}

function HunkRows({ hunk, first, language, sides }: { hunk: Hunk; first: boolean; language: string; sides: Sides }) {
  // Each side is coloured as the file it was, or the colours of a string would run over a deleted quote.
  const before = useSide(hunk, language, "add");
  const after = useSide(hunk, language, "delete");
  const colours = (line: DiffLine, side: "before" | "after") =>
    side === "before" ? before.get(line.before ?? -1) : after.get(line.after ?? -1);
  return (
    <tbody>
      {(hunk.header || !first || !fromTheTop(hunk)) && (
        <tr className="hunk">
          <td colSpan={sides === "split" ? 4 : 3}>{hunk.header || "⋯"}</td>
        </tr>
      )}
      {sides === "split"
        ? pairs(hunk.lines).map(({ left, right }, index) => (
            <tr key={index}>
              <Half line={left} side="before" colours={left && colours(left, "before")} />
              <Half line={right} side="after" colours={right && colours(right, "after")} />
            </tr>
          ))
        : hunk.lines.map((line, index) => (
            <tr key={index} className={line.kind}>
              <td className="number">{line.before}</td>
              <td className="number">{line.after}</td>
              <Words line={line} colours={colours(line, line.kind === "delete" ? "before" : "after")} />
            </tr>
          ))}
    </tbody>
  );
}

/** Nothing is left out before it. */
function fromTheTop({ lines }: Hunk): boolean {
  return (lines[0]?.before ?? lines[0]?.after ?? 1) === 1;
}

function useSide(hunk: Hunk, language: string, without: "add" | "delete"): ReadonlyMap<number, CodeLine> {
  const lines = useMemo(() => hunk.lines.filter(({ kind }) => kind !== without), [hunk, without]);
  const code = useMemo(() => lines.map(({ text }) => text).join("\n"), [lines]);
  const { lines: coloured } = useHighlighted(code, language);
  return useMemo(() => {
    const numbers = lines.map((line) => (without === "add" ? line.before : line.after) ?? -1);
    return new Map(coloured.map((line, index) => [numbers[index] ?? -1, line]));
  }, [coloured, lines, without]);
}

function Half({
  line,
  side,
  colours,
}: {
  line: DiffLine | null;
  side: "before" | "after";
  colours: CodeLine | null | undefined;
}) {
  if (!line) return <td className={`nothing ${side}`} colSpan={2} />;
  return (
    <>
      <td className={`number ${line.kind}`}>{line[side]}</td>
      <Words line={line} colours={colours} side={side} />
    </>
  );
}

const SIGNS = { add: "+", delete: "−", context: " " } as const;

type WordsProps = { line: DiffLine; colours: CodeLine | null | undefined; side?: string };

function Words({ line, colours, side = "" }: WordsProps) {
  const pieces = colours ?? [{ text: line.text, classes: "" }];
  return (
    <td className={`line ${line.kind} ${side}`}>
      <span className="sign" aria-hidden="true">
        {SIGNS[line.kind]}
      </span>
      {line.changed ? marked(pieces, line.changed) : <CodePieces line={pieces} />}
    </td>
  );
}

/** The pieces with a mark around what changed. */
function marked(pieces: readonly Piece[], [start, end]: readonly [number, number]): ReactNode {
  const parts: [Piece[], Piece[], Piece[]] = [[], [], []];
  let at = 0;
  for (const { text, classes } of pieces) {
    const cuts = [0, clamp(start - at, text), clamp(end - at, text), text.length];
    for (let i = 0; i < 3; i++) {
      const cut = text.slice(cuts[i], cuts[i + 1]);
      if (cut) parts[i]!.push({ text: cut, classes });
    }
    at += text.length;
  }
  return (
    <>
      <CodePieces line={parts[0]} />
      {parts[1].length > 0 && (
        <mark>
          <CodePieces line={parts[1]} />
        </mark>
      )}
      <CodePieces line={parts[2]} />
    </>
  );
}

function clamp(position: number, text: string): number {
  return Math.min(text.length, Math.max(0, position));
}
